// Package harness answers "NAME THREADS" with "NS TWINS DISORDER AHEAD_MS OLD_MS": see ../../c/harness.h.
package harness

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const count = 262144

// Peer is a generator: Fill takes len(ids) IDs from it, UnixMs is the time in one.
type Peer struct {
	Fill   func(ids []int64)
	UnixMs func(id int64) int64
}

// The time of both must be the same one to four fifths.
func timeOfOne(first, last []time.Time) float64 {
	begin, end := slices.MinFunc(first, time.Time.Compare), slices.MaxFunc(last, time.Time.Compare)
	var took time.Duration
	for t := range first {
		took += last[t].Sub(first[t])
	}
	if float64(took) <= 0.8*float64(end.Sub(begin))*float64(len(first)) {
		return math.NaN()
	}
	return float64(took) / float64(len(first)) / count
}

func answer(p Peer, threads int) {
	all := make([]int64, count*threads)
	var arrived atomic.Int32
	var done sync.WaitGroup
	first, last := make([]time.Time, threads), make([]time.Time, threads)
	end := make([]int64, threads)
	for t := range threads {
		done.Add(1)
		go func() {
			defer done.Done()
			runtime.LockOSThread()
			arrived.Add(1)
			for arrived.Load() < int32(threads) {
			}
			first[t] = time.Now()
			p.Fill(all[t*count : (t+1)*count])
			last[t] = time.Now()
			end[t] = last[t].UnixMilli()
		}()
	}
	done.Wait()
	var ahead, old int64
	twins, disorder := 0, 0
	for t := range threads {
		ids := all[t*count : (t+1)*count]
		by := p.UnixMs(ids[count-1]) - end[t]
		ahead, old = max(ahead, by), max(old, -by)
		for i := 1; i < count; i++ {
			if ids[i-1] >= ids[i] {
				disorder++
			}
		}
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i-1] == all[i] {
			twins++
		}
	}
	fmt.Printf("%.3f %d %d %d %d\n", timeOfOne(first, last), twins, disorder, ahead, old)
}

// Serve answers until its input ends.
func Serve(peers map[string]Peer) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var name string
		var threads int
		if _, err := fmt.Sscan(in.Text(), &name, &threads); err != nil || peers[name].Fill == nil {
			os.Exit(2)
		}
		answer(peers[name], threads)
	}
}
