// vapstack/monotime: strictly increasing nanoseconds, and UUIDs of them. A module of its own, so that the others can be
// measured where the registry does not have it.
package main

import (
	"encoding/binary"

	"peers/harness"

	"github.com/vapstack/monotime"
)

func main() {
	mono := monotime.New(0)
	gen, err := monotime.NewMonoUUID(1, monotime.ZeroUUID)
	if err != nil {
		panic(err)
	}
	harness.Serve(map[string]harness.Peer{
		"monotime": {
			Fill: func(ids []int64) {
				for i := range ids {
					ids[i] = mono.Next()
				}
			},
			UnixMs: func(id int64) int64 { return id / 1000000 },
		},
		"monotime-uuid": {
			// The nanosecond back from its two halves, as a number that can be compared.
			Fill: func(ids []int64) {
				for i := range ids {
					uuid := gen.Next()
					ms := int64(binary.BigEndian.Uint64(uuid[:8]) >> 16)
					ids[i] = ms*1000000 + int64(binary.BigEndian.Uint64(uuid[8:])&0xfffff)
				}
			},
			UnixMs: func(id int64) int64 { return id / 1000000 },
		},
	})
}
