// sony/sonyflake/v2 with milliseconds, 2 bits of machine and 20 of sequence.
package main

import (
	"time"

	"peers/harness"

	"github.com/sony/sonyflake/v2"
)

func main() {
	start := time.UnixMilli(1767225600000)
	flake, err := sonyflake.New(sonyflake.Settings{
		BitsSequence:  20,
		BitsMachineID: 2,
		TimeUnit:      time.Millisecond,
		StartTime:     start,
		MachineID:     func() (int, error) { return 1, nil },
	})
	if err != nil {
		panic(err)
	}
	harness.Serve(map[string]harness.Peer{"sonyflake": {
		Fill: func(ids []int64) {
			for i := range ids {
				id, err := flake.NextID()
				if err != nil {
					panic(err)
				}
				ids[i] = id
			}
		},
		UnixMs: func(id int64) int64 { return id>>22 + start.UnixMilli() },
	}})
}
