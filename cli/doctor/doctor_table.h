/* What kazahana doctor finds out about a lease table. */
#ifndef CLI_DOCTOR_TABLE_H
#define CLI_DOCTOR_TABLE_H

#include "cli/doctor/finding.h"
#include "kazahana.h"

enum doctor_table { TABLE_NONE, TABLE_ANSWERS, TABLE_SILENT };

/* Asks the source about itself: whether it answers, what it can promise, its clock and what is free. TABLE_NONE if it
 * is no lease table. TABLE_ANSWERS: *layout is the service's. */
enum doctor_table doctor_check_table(struct findings *findings, kz_source *source, const char *service,
                                     kz_layout *layout);

/* Whether a lease with this holder is still out. */
void doctor_check_released(struct findings *findings, kz_source *source, const char *holder);

#endif
