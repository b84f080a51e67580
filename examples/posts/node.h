/* The instance's place in the ID space: the generator, and what there is to say about it. */
#ifndef POSTS_NODE_H
#define POSTS_NODE_H

#include <kazahana.h>

#include <jansson.h>

typedef struct node node;

/* Claims a place from the source. What its keeper has to say goes to the log. NULL, with `err` filled, if none is to be
 * had. */
node *node_open(const char *source, kz_error *err);
/* Gives the place back. NULL is allowed. */
void node_close(node *n);

/* A new ID and what it is made of. Waits for two seconds at the most. */
kz_status node_mint(node *n, kz_id *id, kz_parts *parts, kz_error *err);

/* For /health: whether an ID can be had right now, from which node, until when, and what went wrong last. */
json_t *node_health(node *n, bool *up);

#endif
