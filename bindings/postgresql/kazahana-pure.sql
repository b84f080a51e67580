-- kazahana in plain SQL, for hosted PostgreSQL that takes no extension.
--
-- The sequence kazahana_last *is* the last ID. nextval never repeats, also after a crash and in any number of sessions;
-- the clock only pushes it up. A database mints on one node, which must be nobody else's for good: set it aside in the
-- lease table (kazahana reserve 4095), and write it here. Not promised: a standby that is promoted while the old primary
-- goes on, and a restored backup, repeat IDs. Where programs can mint, let them: postgres:// needs no extension either.
--
-- The layout is 41-14-8@2026-01-01, 256 IDs a millisecond. A clock that was set back by more than a second is not waited
-- for: IDs go on upward from the last one.

CREATE SEQUENCE kazahana_last AS bigint;

CREATE FUNCTION kazahana_own_node() RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 4095::bigint';

-- Without STRICT these are inlined: NULL gives NULL all the same.
CREATE FUNCTION kazahana_min(t timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    'SELECT (floor(extract(epoch FROM t) * 1000)::bigint - 1767225600000) << 22';
CREATE FUNCTION kazahana_max(t timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    'SELECT ((floor(extract(epoch FROM t) * 1000)::bigint - 1767225600000) << 22) | 4194303';
CREATE FUNCTION kazahana_time(id bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    'SELECT to_timestamp(((id >> 22) + 1767225600000)::numeric / 1000)';
CREATE FUNCTION kazahana_node(id bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    'SELECT id >> 8 & 16383';
CREATE FUNCTION kazahana_decode(id bigint, OUT "time" timestamptz, OUT node bigint, OUT sequence bigint,
                                OUT fallback boolean) LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    'SELECT kazahana_time(id), id >> 8 & 16383, id & 255, id >> 21 & 1 = 1';
CREATE FUNCTION kazahana_text(id bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', (id >> n * 5 & CASE n WHEN 12 THEN 15 ELSE 31 END)::int + 1, 1),
                      '' ORDER BY n DESC) FROM generate_series(0, 12) n
$$;

-- Raises the sequence to the first ID of this millisecond, or of the next where this one is used up. One session at a
-- time: whoever had to wait looks again, and finds it done. The gap to where the sequence stands is millions, so
-- nobody can pass the new value meanwhile, and what nextval gives on the way there lies outside the node's block.
CREATE FUNCTION kazahana_push() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    last bigint;
    wanted bigint;
BEGIN
    PERFORM pg_advisory_lock(hashtext('kazahana_last'));
    BEGIN
        SELECT last_value INTO last FROM kazahana_last;
        wanted := kazahana_min(clock_timestamp()) | (kazahana_own_node() << 8);
        IF last >> 22 >= wanted >> 22 AND (last & 4194303) >= (kazahana_own_node() << 8) + 255 THEN
            wanted := ((last >> 22) + 1 << 22) | (kazahana_own_node() << 8);
        ELSIF last >> 22 >= wanted >> 22 THEN
            wanted := (last >> 22 << 22) | (kazahana_own_node() << 8);
        END IF;
        IF last < wanted - 1 THEN
            PERFORM setval('kazahana_last', wanted - 1);
        END IF;
    EXCEPTION WHEN query_canceled OR OTHERS THEN
        -- The lock is the session's: a query that is cancelled here must not leave it to its end.
        PERFORM pg_advisory_unlock(hashtext('kazahana_last'));
        RAISE;
    END;
    PERFORM pg_advisory_unlock(hashtext('kazahana_last'));
END
$$;

CREATE FUNCTION kazahana_next() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    since bigint := kazahana_min(clock_timestamp()); -- read once: a slow machine would never be fresh enough
    id bigint;
    ahead_ms bigint;
BEGIN
    LOOP
        id := nextval('kazahana_last');
        EXIT WHEN kazahana_node(id) = kazahana_own_node() AND id >= since;
        PERFORM kazahana_push();
    END LOOP;
    ahead_ms := (id >> 22) - (kazahana_min(clock_timestamp()) >> 22);
    IF ahead_ms BETWEEN 1 AND 1000 THEN
        PERFORM pg_sleep(ahead_ms / 1000.0);
    END IF;
    RETURN id;
END
$$;
