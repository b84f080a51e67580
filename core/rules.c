/* Which rules a test build has switched off. */
#include "core/rules.h"

#ifdef KZ_TEST_HOOKS
unsigned kz__rules_off;
#else
typedef kz__rule kz__rules_are_constants;
#endif
