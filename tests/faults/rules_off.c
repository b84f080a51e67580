/* For a program that is built with KZ_TEST_HOOKS: KZ_RULES_OFF is a sum of bits, 1 << each rule that is switched off.
 */
#include "core/rules.h"

#include <stdlib.h>

__attribute__((constructor)) static void switch_off(void)
{
    const char *rules = getenv("KZ_RULES_OFF");
    kz__rules_off = rules ? (unsigned)strtoul(rules, NULL, 0) : 0;
}
