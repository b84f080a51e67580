//go:build cgo

package kazahana

import (
	"context"
	"testing"
)

// A layout that never runs out, so that the call is measured and not the wait.
const benchLayout = "41-2-20@2026-01-01"

func BenchmarkNext(b *testing.B) {
	gen, err := Open("static:1", WithLayout(benchLayout))
	if err != nil {
		b.Fatal(err)
	}
	defer gen.Close()
	ctx := context.Background()
	last := uint64(0)
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		id, err := gen.Next(ctx)
		if err != nil || id <= last {
			b.Fatal(id, last, err)
		}
		last = id
	}
}

func BenchmarkFill1024(b *testing.B) {
	gen, err := Open("static:1", WithLayout(benchLayout))
	if err != nil {
		b.Fatal(err)
	}
	defer gen.Close()
	ids := make([]uint64, 1024)
	b.ResetTimer()
	for i := 0; i < b.N; i += len(ids) {
		if err := gen.Fill(ids); err != nil {
			b.Fatal(err)
		}
	}
}
