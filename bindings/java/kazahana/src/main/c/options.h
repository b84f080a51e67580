/* Options as a binding has them: a name and a text. */
#ifndef KZ_JNI_OPTIONS_H
#define KZ_JNI_OPTIONS_H

#include "kazahana.h"

/* Sets one option; `text` must live until the generator is open. KZ_INVALID names what is wrong. */
kz_status kz_jni_option(kz_options *options, const char *name, const char *text, kz_error *err);

#endif
