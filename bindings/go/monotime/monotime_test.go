package monotime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

type vectors struct {
	MonoUUID []struct {
		Text   string `json:"text"`
		Node   int    `json:"node"`
		UnixNs int64  `json:"unix_ns,string"`
	} `json:"monouuid"`
	MonoUUIDBad []string `json:"monouuid_bad"`
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	text, err := os.ReadFile("../../../tests/vectors/ids.json")
	if err != nil {
		t.Skip("the vectors are in the project's own tree: ", err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.MonoUUID) == 0 || len(v.MonoUUIDBad) == 0 {
		t.Fatal("the file of vectors has no UUIDs")
	}
	return v
}

func TestTheVectorsAreReadAndWritten(t *testing.T) {
	v := readVectors(t)
	for _, want := range v.MonoUUID {
		var u UUID
		if err := u.UnmarshalText([]byte(want.Text)); err != nil {
			t.Fatal(err)
		}
		at, node, ok := u.Parse()
		if !ok || node != want.Node || at.UnixNano() != want.UnixNs || u.String() != want.Text {
			t.Errorf("%s: read as node %d at %d, ok %v, written as %s", want.Text, node, at.UnixNano(), ok, u)
		}
		if made := makeUUID(lowBits(want.Node), want.UnixNs); made != u {
			t.Errorf("node %d at %d gives %s, not %s", want.Node, want.UnixNs, made, u)
		}
	}
	for _, bad := range v.MonoUUIDBad {
		u := makeUUID(lowBits(1), 1)
		before := u
		if err := u.UnmarshalText([]byte(bad)); err == nil || u != before {
			t.Errorf("%s: error %v, value %s", bad, err, u)
		}
	}
}

// The seed's two samples, as they stand there.
func TestTheSamplesRun(t *testing.T) {
	lastKnownTimestamp := int64(0)
	mono := New(lastKnownTimestamp)
	ts1 := mono.Next()
	ts2 := mono.Next()
	if ts2 <= ts1 || time.Since(time.Unix(0, ts1)) > time.Hour {
		t.Errorf("%d, %d", ts1, ts2)
	}
	nodeID, lastKnownUUID := 1, ZeroUUID
	gen, err := NewMonoUUID(nodeID, lastKnownUUID)
	if err != nil {
		t.Fatal(err)
	}
	id1 := gen.Next()
	id2 := gen.Next()
	if bytes.Compare(id1[:], id2[:]) >= 0 || id1.NodeID() != 1 || !id1.Time().Before(id2.Time()) {
		t.Errorf("%s, %s", id1, id2)
	}
}

func TestAClockThatGoesBackMakesValuesLogical(t *testing.T) {
	var last atomic.Int64
	for _, step := range []struct{ now, want int64 }{
		{1000, 1000}, {1000, 1001}, {500, 1002}, {-7, 1003}, {1003, 1004}, {2000, 2000},
	} {
		if got := claim(&last, step.now); got != step.want {
			t.Errorf("at %d: %d, not %d", step.now, got, step.want)
		}
	}
}

func TestAGeneratorGoesOnAboveTheLastKnownValue(t *testing.T) {
	future := time.Now().Add(time.Hour).UnixNano()
	if got := New(future).Next(); got != future+1 {
		t.Errorf("%d after %d", got, future)
	}
	if got := New(-5).Next(); got <= 0 {
		t.Errorf("%d after -5", got)
	}
	last := makeUUID(lowBits(7), future)
	gen, err := NewGenUUID(7, last)
	if err != nil {
		t.Fatal(err)
	}
	if got := gen.Next(); got != makeUUID(lowBits(7), future+1) {
		t.Errorf("%s after %s", got, last)
	}
	if _, err := NewMonoUUID(8, last); err == nil {
		t.Error("another node's UUID was taken as the last one")
	}
	for _, node := range []int{-1, 0, 1 << 24} {
		if _, err := NewMonoUUID(node, ZeroUUID); err == nil {
			t.Errorf("node %d was taken", node)
		}
	}
	if _, err := NewMonoUUID(1, UUID{1}); err == nil {
		t.Error("a UUID of another kind was taken as the last one")
	}
}

func TestTheEndOfTheValuesIsSaid(t *testing.T) {
	g := New(math.MaxInt64 - 1)
	if got := g.Next(); got != math.MaxInt64 {
		t.Errorf("the last value is %d", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a value came after the last one")
		}
		if g.last.Load() != math.MaxInt64 {
			t.Error("the failed call changed the generator")
		}
	}()
	g.Next()
}

func TestGoroutinesGetDifferentValuesEachInOrder(t *testing.T) {
	const goroutines, count = 8, 50000
	mono := New(0)
	gen, _ := NewMonoUUID(3, ZeroUUID)
	values := make([][]int64, goroutines)
	uuids := make([][]UUID, goroutines)
	var done sync.WaitGroup
	for i := range values {
		done.Add(1)
		go func(i int) {
			defer done.Done()
			for n := 0; n < count; n++ {
				values[i] = append(values[i], mono.Next())
				uuids[i] = append(uuids[i], gen.Next())
			}
		}(i)
	}
	done.Wait()
	var all []int64
	seen := make(map[UUID]bool, goroutines*count)
	for i := range values {
		for n := range values[i] {
			if n > 0 && (values[i][n] <= values[i][n-1] || bytes.Compare(uuids[i][n][:], uuids[i][n-1][:]) <= 0) {
				t.Fatalf("goroutine %d is out of order at %d", i, n)
			}
			seen[uuids[i][n]] = true
		}
		all = append(all, values[i]...)
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	for n := 1; n < len(all); n++ {
		if all[n] == all[n-1] {
			t.Fatalf("%d was given twice", all[n])
		}
	}
	if len(seen) != goroutines*count {
		t.Fatalf("%d of %d UUIDs differ", len(seen), goroutines*count)
	}
}

func TestUUIDsGoThroughJSONAndSQL(t *testing.T) {
	gen, _ := NewMonoUUID(9, ZeroUUID)
	u := gen.Next()
	text, err := json.Marshal(map[string]UUID{"id": u})
	if err != nil || string(text) != fmt.Sprintf(`{"id":%q}`, u) {
		t.Fatalf("%s, %v", text, err)
	}
	var back map[string]UUID
	if err := json.Unmarshal(text, &back); err != nil || back["id"] != u {
		t.Fatalf("%v, %v", back, err)
	}
	value, _ := u.Value()
	raw, _ := u.MarshalBinary()
	for _, src := range []any{value, []byte(value.(string)), raw} {
		var read UUID
		if err := read.Scan(src); err != nil || read != u {
			t.Errorf("from %T: %s, %v", src, read, err)
		}
	}
	read := u
	if err := read.Scan(nil); err != nil || read != ZeroUUID {
		t.Errorf("from NULL: %s, %v", read, err)
	}
	if err := read.Scan(7); err == nil {
		t.Error("a number was read as a UUID")
	}
	if err := read.UnmarshalBinary(raw[:15]); err == nil {
		t.Error("15 bytes were read as a UUID")
	}
}

func TestTheSmallestUUIDOfATimeSortsFirst(t *testing.T) {
	at := time.Unix(1700000000, 123456789)
	min, err := MinUUID(0, at)
	of5, err5 := MinUUID(5, at)
	if err != nil || err5 != nil || bytes.Compare(min[:], of5[:]) >= 0 || of5 != makeUUID(lowBits(5), at.UnixNano()) {
		t.Errorf("%s, %s, %v, %v", min, of5, err, err5)
	}
	for _, bad := range []time.Time{time.Unix(-1, 0), time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if u, err := MinUUID(1, bad); err == nil {
			t.Errorf("%v gives %s", bad, u)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	g := New(0)
	for i := 0; i < b.N; i++ {
		g.Next()
	}
}

// The same rule over time.Now, as it is usually written.
func BenchmarkOverTimeNow(b *testing.B) {
	var last atomic.Int64
	for i := 0; i < b.N; i++ {
		claim(&last, time.Now().UnixNano())
	}
}
