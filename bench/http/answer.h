/* The answer all contestants give, so that they differ in nothing but how. */
#ifndef KZ_BENCH_HTTP_ANSWER_H
#define KZ_BENCH_HTTP_ANSWER_H

#define ANSWER_BODY        "{\"data\":{\"id\":7277771434402209792,\"id_str\":\"7277771434402209792\"}}"
#define ANSWER_BODY_LENGTH "66"

#endif
