/* Deadlines: a list for each kind, oldest first, looked at by one timer a loop. */
#include "loop.h"

static int64_t limit_ms(const http_settings *settings, loop_deadline deadline)
{
    switch (deadline) {
    case LOOP_IDLE:
        return settings->idle_ms;
    case LOOP_REQUEST:
        return settings->request_ms;
    case LOOP_WRITE:
        return settings->write_ms;
    default:
        return LOOP_LINGER_MS;
    }
}

static void leave(http_conn *conn)
{
    http_loop *loop = conn->loop;
    if (conn->deadline == LOOP_NO_DEADLINE)
        return;
    *(conn->earlier ? &conn->earlier->later_one : &loop->oldest[conn->deadline]) = conn->later_one;
    *(conn->later_one ? &conn->later_one->earlier : &loop->newest[conn->deadline]) = conn->earlier;
    conn->deadline = LOOP_NO_DEADLINE;
}

void deadline_set(http_conn *conn, loop_deadline deadline, uint64_t since_ms)
{
    http_loop *loop = conn->loop;
    if (conn->deadline == deadline && conn->since_ms == since_ms)
        return;
    leave(conn);
    conn->since_ms = since_ms;
    conn->deadline = deadline;
    if (deadline == LOOP_NO_DEADLINE)
        return;
    /* Nearly always the newest; a request that was begun before a slow write is not. */
    http_conn *before = loop->newest[deadline];
    while (before && before->since_ms > since_ms)
        before = before->earlier;
    conn->earlier = before;
    conn->later_one = before ? before->later_one : loop->oldest[deadline];
    *(before ? &before->later_one : &loop->oldest[deadline]) = conn;
    *(conn->later_one ? &conn->later_one->earlier : &loop->newest[deadline]) = conn;
    if (!loop->ticking) {
        loop->ticking = true;
        uint64_t tick_ms = deadline_tick_ms(loop->settings);
        uv_timer_start(&loop->tick, deadline_tick, tick_ms, tick_ms);
    }
}

/* Late by an eighth at most, and no busier than needed. */
uint64_t deadline_tick_ms(const http_settings *settings)
{
    int64_t least_ms = LOOP_LINGER_MS;
    for (int kind = 0; kind < LOOP_DEADLINES; kind++)
        if (limit_ms(settings, (loop_deadline)kind) < least_ms)
            least_ms = limit_ms(settings, (loop_deadline)kind);
    return least_ms / 8 < 5 ? 5 : (uint64_t)least_ms / 8;
}

void deadline_tick(uv_timer_t *tick)
{
    http_loop *loop = tick->data;
    uint64_t loop_ms = uv_now(&loop->uv);
    for (int kind = 0; kind < LOOP_DEADLINES; kind++) {
        uint64_t limit = (uint64_t)limit_ms(loop->settings, (loop_deadline)kind);
        for (http_conn *conn; (conn = loop->oldest[kind]) && conn->since_ms + limit <= loop_ms;) {
            deadline_set(conn, LOOP_NO_DEADLINE, 0);
            conn_expired(conn, (loop_deadline)kind);
        }
    }
    if (loop->open == 0) {
        uv_timer_stop(tick);
        loop->ticking = false;
    }
}
