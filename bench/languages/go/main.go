// Answers "NAME" with the nanoseconds of processor time for one ID.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/google/uuid"

	"kazahana"
	"kazahana/monotime"
)

const count = 1 << 18

func processorNs() int64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return syscall.TimevalToNsec(usage.Utime) + syscall.TimevalToNsec(usage.Stime)
}

// increasing stops everything when an ID is not above the one before.
func increasing(last *uint64, id uint64) {
	if id <= *last {
		fmt.Println("out of order")
		os.Exit(1)
	}
	*last = id
}

func main() {
	snowflake.Epoch, snowflake.NodeBits, snowflake.StepBits = 1767225600000, 2, 20
	node, err := snowflake.NewNode(1)
	gen, openErr := kazahana.Open("static:1", kazahana.WithLayout("41-2-20@2026-01-01"))
	if err != nil || openErr != nil {
		fmt.Println(err, openErr)
		return
	}
	ctx := context.Background()
	mono := monotime.New(0)
	monoUUID, _ := monotime.NewMonoUUID(1, monotime.ZeroUUID)
	var last, lastOurs, lastMono uint64
	var word atomic.Int64
	ids := make([]uint64, 1024)
	kinds := map[string]func(){
		"bwmarrin": func() { increasing(&last, uint64(node.Generate())) },
		"next": func() {
			id, _ := gen.Next(ctx)
			increasing(&lastOurs, id)
		},
		"monotime": func() { increasing(&lastMono, uint64(mono.Next())) },
		"time-now": func() {
			for {
				old, now := word.Load(), time.Now().UnixNano()
				if now <= old {
					now = old + 1
				}
				if word.CompareAndSwap(old, now) {
					return
				}
			}
		},
		"uuid":   func() { monoUUID.Next() },
		"uuidv7": func() { _, _ = uuid.NewV7() },
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		call := kinds[in.Text()]
		begin := processorNs()
		switch {
		case in.Text() == "fill":
			for i := 0; i < count; i += len(ids) {
				if gen.Fill(ids) != nil {
					return
				}
				increasing(&lastOurs, ids[0])
				lastOurs = ids[len(ids)-1]
			}
		case call == nil:
			fmt.Println("no such row")
			continue
		default:
			for i := 0; i < count; i++ {
				call()
			}
		}
		fmt.Printf("%.2f\n", float64(processorNs()-begin)/count)
	}
}
