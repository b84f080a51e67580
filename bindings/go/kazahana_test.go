//go:build cgo

package kazahana

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"
)

func open(t *testing.T, url string, options ...Option) *Generator {
	t.Helper()
	gen, err := Open(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gen.Close() })
	return gen
}

// noDuplicates wants each list in order, and all values different.
func noDuplicates(t *testing.T, lists [][]uint64) {
	t.Helper()
	var all []uint64
	for i, list := range lists {
		for n := 1; n < len(list); n++ {
			if list[n] <= list[n-1] {
				t.Fatalf("list %d: %d after %d", i, list[n], list[n-1])
			}
		}
		all = append(all, list...)
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	for n := 1; n < len(all); n++ {
		if all[n] == all[n-1] {
			t.Fatalf("%d was given twice", all[n])
		}
	}
}

func TestGoroutinesMintDifferentIDsEachInOrder(t *testing.T) {
	// The second layout runs out of sequence in every millisecond, the third hands leases over all the time.
	for _, c := range []struct{ url, layout string }{
		{"static:1", "41-2-20@2026-01-01"}, {"static:2", "snowflake"}, {"memory:?lease=100ms", ""},
	} {
		t.Run(c.url+" "+c.layout, func(t *testing.T) {
			gen := open(t, c.url, WithLayout(c.layout), WithService("goroutines"))
			const goroutines, count = 8, 20000
			lists := make([][]uint64, goroutines)
			var done sync.WaitGroup
			for i := range lists {
				done.Add(1)
				go func(i int) {
					defer done.Done()
					for len(lists[i]) < count {
						if i == 0 {
							batch := make([]uint64, 100)
							if err := gen.Fill(batch); err != nil {
								t.Error(err)
								return
							}
							lists[i] = append(lists[i], batch...)
							continue
						}
						id, err := gen.Next(context.Background())
						if err != nil {
							t.Error(err)
							return
						}
						lists[i] = append(lists[i], id)
					}
				}(i)
			}
			done.Wait()
			noDuplicates(t, lists)
			stats, err := gen.Stats()
			if err != nil || stats.Leased+stats.Fenced < goroutines*count || stats.Last == 0 {
				t.Errorf("%+v, %v", stats, err)
			}
		})
	}
}

func TestTwoGeneratorsOnOneTableNeverMeet(t *testing.T) {
	a, b := open(t, "memory:"), open(t, "memory:")
	lists := make([][]uint64, 2)
	for i, gen := range []*Generator{a, b} {
		lists[i] = make([]uint64, 5000)
		if err := gen.Fill(lists[i]); err != nil {
			t.Fatal(err)
		}
	}
	noDuplicates(t, lists)
}

func TestTryNextSaysWhenToAskAgain(t *testing.T) {
	gen := open(t, "static:1", WithLayout("41-14-1@2026-01-01")) // two IDs a millisecond
	for i := 0; i < 1000; i++ {
		_, err := gen.TryNext()
		if err == nil {
			continue
		}
		var e *Error
		if !errors.Is(err, ErrAgain) || !errors.As(err, &e) || e.Retry <= 0 || e.Retry > time.Second {
			t.Fatalf("%v, %+v", err, e)
		}
		return
	}
	t.Fatal("a thousand IDs were to be had without waiting, at two a millisecond")
}

func TestAContextEndsTheWait(t *testing.T) {
	gen := open(t, "static:1", WithLayout("41-14-1@2026-01-01"), WithTimeout(-1))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ids := make([]uint64, 100000) // 50 s of IDs
	if err := gen.FillContext(ctx, ids); err != context.Canceled {
		t.Errorf("%v", err)
	}
}

func TestATimeoutEndsTheWait(t *testing.T) {
	gen := open(t, "static:1", WithLayout("41-14-1@2026-01-01"), WithTimeout(20*time.Millisecond))
	if err := gen.Fill(make([]uint64, 100000)); !errors.Is(err, ErrTimeout) {
		t.Errorf("%v", err)
	}
}

func TestBadInputGetsAnErrorThatNamesIt(t *testing.T) {
	for url, want := range map[string]string{
		"static:9999":      "9999",
		"nonsense":         "nonsense",
		"static:1\x00":     "NUL",
		"what:ever":        "what",
		"http://h:1?x=1":   "x",
		"http://a b":       "host",
		"env:KZ_NO_SUCH_V": "KZ_NO_SUCH_V",
	} {
		gen, err := Open(url, WithTimeout(time.Second))
		var e *Error
		if gen != nil || !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not a word of %q", url, err, want)
		}
	}
	if _, err := Open("http://:secret@h:1?token=hush&token=hush"); err == nil || strings.Contains(err.Error(), "hush") ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	if _, err := Open("static:1", WithLayout("41-14-8@soon")); err == nil || !strings.Contains(err.Error(), "soon") {
		t.Errorf("%v", err)
	}
}

func TestAServerThatIsNotThereIsSaid(t *testing.T) {
	_, err := Open("http://127.0.0.1:1", WithTimeout(300*time.Millisecond))
	var e *Error
	if !errors.As(err, &e) || e.Status != StatusLeaseAcquisition || e.Cause != StatusUnavailable ||
		!strings.Contains(e.Message, "127.0.0.1:1") {
		t.Errorf("%+v", e)
	}
}

func TestCloseUnderMintersIsSafe(t *testing.T) {
	rounds := 60
	for round := 0; round < rounds; round++ {
		gen, err := Open("memory:", WithService(fmt.Sprint("close-", round%3)))
		if err != nil {
			t.Fatal(err)
		}
		var done sync.WaitGroup
		lists := make([][]uint64, 8)
		for i := range lists {
			done.Add(1)
			go func(i int) {
				defer done.Done()
				for {
					id, err := gen.Next(context.Background())
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
					lists[i] = append(lists[i], id)
				}
			}(i)
		}
		gen.Close()
		gen.Close()
		done.Wait()
		noDuplicates(t, lists)
		if _, err := gen.Stats(); !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
		if _, err := gen.TryNext(); !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
	}
}

func TestLinesOfTheLogArrive(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	gen := open(t, "standalone:", WithFallback(FallbackAny), WithLog(func(_ LogLevel, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}))
	if _, err := gen.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	stats, _ := gen.Stats()
	if stats.Unfenced == 0 || !stats.UnfencedNow {
		t.Errorf("%+v", stats)
	}
}

type idVector struct {
	Layout string `json:"layout"`
	ID     uint64 `json:"id,string"`
	UnixMs int64  `json:"unix_ms"`
	Node   uint32 `json:"node"`
	Seq    uint32 `json:"seq"`
}

type vectorFile struct {
	IDs  []idVector `json:"ids"`
	Text []struct {
		ID        uint64 `json:"id,string"`
		Hex       string `json:"hex"`
		Base32    string `json:"base32"`
		Base62    string `json:"base62"`
		Base64URL string `json:"base64url"`
	} `json:"text"`
	TextBad map[string][]string `json:"text_bad"`
	Mixed   []struct {
		ID       uint64 `json:"id,string"`
		External string `json:"external"`
	} `json:"external_no_secret"`
	Keyed []struct {
		ID        uint64 `json:"id,string"`
		Algorithm string `json:"algorithm"`
		Secret    string `json:"secret_hex"`
		Key       int    `json:"key_number"`
		External  string `json:"external"`
	} `json:"external_keyed"`
	Typed []struct {
		ID        uint64 `json:"id,string"`
		Algorithm string `json:"algorithm"`
		Secret    string `json:"secret_hex"`
		Key       int    `json:"key_number"`
		Type      string `json:"type"`
		External  string `json:"external"`
	} `json:"external_typed"`
}

func vectors(t *testing.T) (v vectorFile) {
	t.Helper()
	text, err := os.ReadFile("../../tests/vectors/ids.json")
	if err != nil {
		t.Skip("the vectors are in the project's own tree: ", err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.IDs) == 0 || len(v.Text) == 0 || len(v.Mixed) == 0 || len(v.Keyed) == 0 {
		t.Fatal("the file of vectors lacks a part")
	}
	return v
}

func TestEveryVectorIsDecodedAndWritten(t *testing.T) {
	v := vectors(t)
	for _, want := range v.IDs {
		layout, err := ParseLayout(want.Layout)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := layout.Decode(want.ID)
		if err != nil || parts.Time.UnixMilli() != want.UnixMs || parts.Node != want.Node || parts.Seq != want.Seq {
			t.Errorf("%s %d: %+v, %v", want.Layout, want.ID, parts, err)
		}
		if layout.Name() == "sonyflake" {
			continue // its node stands below the sequence, and a step is 10 ms
		}
		min, errMin := layout.MinID(parts.Time)
		max, errMax := layout.MaxID(parts.Time)
		if errMin != nil || errMax != nil || min > want.ID || max < want.ID {
			t.Errorf("%s %d: not in [%d, %d], %v, %v", want.Layout, want.ID, min, max, errMin, errMax)
		}
	}
	forms := map[string]Form{"decimal": Decimal, "hex": Hex, "base32": Base32, "base62": Base62, "base64url": Base64URL}
	for _, want := range v.Text {
		for form, text := range map[Form]string{Decimal: fmt.Sprint(want.ID), Hex: want.Hex, Base32: want.Base32,
			Base62: want.Base62, Base64URL: want.Base64URL} {
			id, err := Parse(text, form)
			if Format(want.ID, form) != text || err != nil || id != want.ID {
				t.Errorf("%d as %s: %s, %d, %v", want.ID, text, Format(want.ID, form), id, err)
			}
		}
	}
	for name, bad := range v.TextBad {
		for _, text := range bad {
			if id, err := Parse(text, forms[name]); err == nil {
				t.Errorf("%s %q was read as %d", name, text, id)
			}
		}
	}
}

func TestEveryExternalVectorGoesBothWays(t *testing.T) {
	v := vectors(t)
	var mixer *Keys
	for _, want := range v.Mixed {
		id, err := mixer.Internal(want.External)
		if mixer.External(want.ID) != want.External || err != nil || id != want.ID {
			t.Errorf("%d: %s, %d, %v", want.ID, mixer.External(want.ID), id, err)
		}
	}
	for _, want := range v.Keyed {
		keys, err := ParseKeys(fmt.Sprintf("%d %s %s\n", want.Key, want.Algorithm, want.Secret))
		if err != nil {
			t.Fatal(err)
		}
		id, err := keys.Internal(want.External)
		if keys.External(want.ID) != want.External || err != nil || id != want.ID {
			t.Errorf("%d: %s, %d, %v", want.ID, keys.External(want.ID), id, err)
		}
	}
	for _, want := range v.Typed {
		var keys *Keys
		if want.Algorithm != "" {
			var err error
			if keys, err = ParseKeys(fmt.Sprintf("%d %s %s\n", want.Key, want.Algorithm, want.Secret)); err != nil {
				t.Fatal(err)
			}
		}
		text, err := keys.ExternalTyped(want.Type, want.ID)
		id, errBack := keys.InternalTyped(want.Type, want.External)
		if text != want.External || err != nil || errBack != nil || id != want.ID {
			t.Errorf("%s %d: %s, %d, %v, %v", want.Type, want.ID, text, id, err, errBack)
		}
		if _, err := keys.InternalTyped("other", want.External); err == nil {
			t.Errorf("%s was read as of another type", want.External)
		}
	}
	if len(v.Typed) == 0 {
		t.Error("the file of vectors has no typed external IDs")
	}
	if _, err := mixer.Internal("short"); err == nil {
		t.Error("5 characters were read as an external ID")
	}
	if _, err := ParseKeys("0 rot13 00"); err == nil {
		t.Error("rot13 was taken as a cipher")
	}
}

func TestIDsGoThroughJSONAndSQL(t *testing.T) {
	const id = ID(1<<63 + 7)
	text, err := json.Marshal(map[string]ID{"id": id})
	if err != nil || string(text) != `{"id":"9223372036854775815"}` {
		t.Fatalf("%s, %v", text, err)
	}
	var back map[string]ID
	if err := json.Unmarshal(text, &back); err != nil || back["id"] != id {
		t.Fatalf("%v, %v", back, err)
	}
	value, err := id.Value()
	if err != nil || value.(int64) >= 0 {
		t.Fatalf("%v, %v", value, err)
	}
	for _, src := range []any{value, "9223372036854775815", []byte("9223372036854775815"), "-9223372036854775801"} {
		var read ID
		if err := read.Scan(src); err != nil || read != id {
			t.Errorf("from %v: %d, %v", src, read, err)
		}
	}
	for _, src := range []any{nil, 1.5, "x", ""} {
		read := id
		if err := read.Scan(src); err == nil || read != id {
			t.Errorf("from %v: %d", src, read)
		}
	}
}
