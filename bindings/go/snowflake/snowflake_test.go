package snowflake

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kazahana"
)

func open(t *testing.T, worker int64) *Generator {
	t.Helper()
	if !kazahana.Available {
		t.Skip("this build has no cgo, so it has no generators")
	}
	gen, err := New(worker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gen.Close() })
	return gen
}

// The seed's constants, to take an ID apart as it would.
const (
	epoch          = 1704067200000 // 2024-01-01T00:00:00Z in ms
	sequenceBits   = 12
	maxSequence    = 1<<sequenceBits - 1 // 4095
	timestampShift = workerBits + sequenceBits
	workerShift    = sequenceBits
)

func TestIDsHaveTheSeedsBits(t *testing.T) {
	gen := open(t, 1023)
	before := time.Now().UnixMilli()
	last := int64(0)
	for i := 0; i < 20000; i++ {
		id, err := gen.Next()
		if err != nil || id <= last {
			t.Fatalf("%d after %d: %v", id, last, err)
		}
		last = id
	}
	ms := last>>timestampShift + epoch
	if ms < before || ms > time.Now().UnixMilli() || last>>workerShift&maxWorker != 1023 ||
		last&maxSequence > maxSequence {
		t.Errorf("%d is not of worker 1023 now", last)
	}
}

func TestAWorkerOutOfRangeIsRefusedInTheSeedsWords(t *testing.T) {
	for _, worker := range []int64{-1, 1024, 1 << 40} {
		if _, err := New(worker); err == nil || err.Error() != "worker ID must be between 0 and 1023" {
			t.Errorf("worker %d: %v", worker, err)
		}
	}
}

func TestASecondGeneratorOfOneWorkerIsRefusedUntilTheFirstIsClosed(t *testing.T) {
	gen := open(t, 77)
	if _, err := New(77); err == nil {
		t.Fatal("two generators have worker 77")
	}
	last, _ := gen.Next()
	gen.Close()
	again := open(t, 77)
	if id, err := again.Next(); err != nil || id <= last {
		t.Errorf("%d after %d: %v", id, last, err)
	}
}

func ExampleNew() {
	if !kazahana.Available {
		fmt.Println(true)
		return
	}
	gen, err := New(5)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gen.Close()
	id, err := gen.Next()
	fmt.Println(err == nil && strings.Count(fmt.Sprint(id), "") > 10)
	// Output: true
}
