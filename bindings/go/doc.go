// Package kazahana mints unique 64-bit IDs that sort by time, on any number of machines, with nothing to configure.
//
//	gen, err := kazahana.Open("http://leases:7070")
//	if err != nil {
//		return err
//	}
//	defer gen.Close()
//	id, err := gen.Next(ctx)
//
// A generator gets its place in the ID space from a source, named by a URL: a lease server (http:), a fixed node
// (static:7, env:WORKER_ID), a table inside the process (memory:). With the build tags kazahana_sqlite and
// kazahana_redis also a lease table in a file (sqlite:) and in Redis (redis:, tsid+redis:); these need the system's
// libsqlite3 and libhiredis. An empty URL is the embedded default, a lease file of this machine.
//
// IDs of one generator increase strictly, over all goroutines. Any number of them may use it at once. Nothing sleeps
// inside C: waiting is Go's, and ends with the context.
//
// A uint64 is what the generator gives; ID is the same as a database column and in JSON.
package kazahana
