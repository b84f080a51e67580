/* The high-water mark of a fixed node, kept on disk ahead of use. */
#ifndef KZ_SOURCES_STATE_H
#define KZ_SOURCES_STATE_H

#include <kazahana.h>

typedef struct kz__state kz__state;

/* Opens or makes the file, locks it, and reads the mark (0 in a new one): IDs below it may have been minted.
 * KZ_IN_USE: somebody has it open. KZ_STATE: damaged, of another node or layout, or not writable. */
kz_status kz__state_open(kz__state **state, const char *path, const kz_layout *layout, uint32_t node, kz_id *mark,
                         kz_error *err);

/* Durable when it returns KZ_OK. After KZ_STATE the mark on disk is the old or the new one. */
kz_status kz__state_write(kz__state *state, kz_id mark, kz_error *err);

/* Is this the file behind that path, by whatever name? */
bool kz__state_is_file(const kz__state *state, const char *path);

/* NULL is allowed. `forked`: closing the parent's descriptor would drop a lock that this process may have taken on the
 * same file by itself, so it stays open. */
void kz__state_close(kz__state *state, bool forked);

#endif
