// Package snowflake mints 64-bit IDs of 41 bits of milliseconds since 2024-01-01, 10 bits of worker and 12 of sequence:
// up to 4,096 a millisecond and worker.
//
//	gen, err := snowflake.New(workerID)
//	id, err := gen.Next()
//
// It is kazahana's source static:N with that layout. So two generators of one worker in a process are refused, a
// second process of this host with the same number is warned about, and a clock that went back is an error.
package snowflake

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"kazahana"
)

const (
	workerBits = 10
	maxWorker  = 1<<workerBits - 1
)

// Generator mints IDs for one worker. Any number of goroutines may use it.
type Generator struct {
	gen *kazahana.Generator
}

// New makes the generator of a worker in 0..1023.
func New(workerID int64) (*Generator, error) {
	if workerID < 0 || workerID > maxWorker {
		return nil, fmt.Errorf("worker ID must be between 0 and %d", maxWorker)
	}
	gen, err := kazahana.Open("static:"+strconv.FormatInt(workerID, 10), kazahana.WithLayout("snowflake"),
		kazahana.WithBackward(kazahana.BackwardFail, 0))
	if err != nil {
		return nil, err
	}
	return &Generator{gen}, nil
}

// Next returns an ID above all before. When a millisecond's 4,096 are used up it waits for the next one.
func (g *Generator) Next() (int64, error) {
	id, err := g.gen.Next(context.Background())
	if errors.Is(err, kazahana.ErrClockBackward) {
		return 0, fmt.Errorf("clock moved backwards, refusing to generate ID: %w", err)
	}
	return int64(id), err
}

// Close frees the worker's number for another generator of this process.
func (g *Generator) Close() error { return g.gen.Close() }
