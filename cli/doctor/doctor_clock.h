/* What kazahana doctor finds out about the machine's clock. */
#ifndef CLI_DOCTOR_CLOCK_H
#define CLI_DOCTOR_CLOCK_H

#include "cli/doctor/finding.h"

void doctor_check_clock(struct findings *findings);

#endif
