/* Times as text, to the nanosecond. */
#ifndef KZ_CORE_TIME_H
#define KZ_CORE_TIME_H

#include <stdint.h>

#define KZ__TIME_TEXT_NS_SIZE 40

/* `2009-11-10T23:00:00.000000001Z` */
void kz__time_text_ns(int64_t unix_ns, char text[static KZ__TIME_TEXT_NS_SIZE]);

#endif
