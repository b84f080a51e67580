// bwmarrin/snowflake with 2 bits of node and 20 of sequence.
package main

import (
	"peers/harness"

	"github.com/bwmarrin/snowflake"
)

func main() {
	snowflake.Epoch = 1767225600000
	snowflake.NodeBits = 2
	snowflake.StepBits = 20
	node, err := snowflake.NewNode(1)
	if err != nil {
		panic(err)
	}
	harness.Serve(map[string]harness.Peer{"bwmarrin": {
		Fill: func(ids []int64) {
			for i := range ids {
				ids[i] = int64(node.Generate())
			}
		},
		UnixMs: func(id int64) int64 { return id>>22 + snowflake.Epoch },
	}})
}
