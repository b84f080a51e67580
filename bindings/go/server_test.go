//go:build cgo

package kazahana

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain makes this program a minter when a test starts it as one.
func TestMain(m *testing.M) {
	if url := os.Getenv("KZ_TEST_MINT_FROM"); url != "" {
		mintToStdout(url, os.Getenv("KZ_TEST_CLOSE") != "no")
		return
	}
	os.Exit(m.Run())
}

const perProcess = 20000

func mintToStdout(url string, closing bool) {
	gen, err := Open(url)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	out := bufio.NewWriter(os.Stdout)
	for i := 0; i < perProcess; i++ {
		id, err := gen.Next(context.Background())
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Fprintln(out, id)
	}
	out.Flush()
	if closing {
		gen.Close()
	}
}

// startServer starts the real lease server on a port of its own.
func startServer(t *testing.T, leaseMs int) string {
	t.Helper()
	program := os.Getenv("KZ_PROGRAM")
	if program == "" {
		t.Skip("KZ_PROGRAM does not name the program that serves leases")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	store := fmt.Sprintf("sqlite:%s?lease=%dms", filepath.Join(t.TempDir(), "leases.db"), leaseMs)
	server := exec.Command(program, "serve", "--listen", address, "--store", store)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		server.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		server.Process.Signal(os.Interrupt)
		<-ended
	})
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if answer, err := http.Get("http://" + address + "/health/ready"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == 200 {
				return "http://" + address
			}
		}
		select {
		case <-ended:
			t.Fatal("the server ended by itself")
		default:
		}
		if time.Since(begin) > 2*time.Minute {
			t.Fatal("the server does not get ready")
		}
	}
}

func leasesOut(t *testing.T, server string) string {
	t.Helper()
	answer, err := http.Get(server + "/leases")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return string(text)
}

func TestFourProcessesOnOneServerNeverMeet(t *testing.T) {
	server := startServer(t, 1000)
	lists := make([][]uint64, 4)
	var done sync.WaitGroup
	for i := range lists {
		done.Add(1)
		go func(i int) {
			defer done.Done()
			minter := exec.Command(os.Args[0])
			minter.Env = append(os.Environ(), "KZ_TEST_MINT_FROM=http://127.0.0.1:1,"+strings.TrimPrefix(server, "http://"))
			if i == 3 { // one of them ends without Close: its leases end by themselves
				minter.Env = append(minter.Env, "KZ_TEST_CLOSE=no")
			}
			text, err := minter.Output()
			if err != nil {
				t.Errorf("%v: %.200s", err, text)
				return
			}
			for _, line := range strings.Fields(string(text)) {
				id, err := strconv.ParseUint(line, 10, 64)
				if err != nil {
					t.Error(err)
					return
				}
				lists[i] = append(lists[i], id)
			}
		}(i)
	}
	done.Wait()
	for i := range lists {
		if len(lists[i]) != perProcess {
			t.Fatalf("process %d gave %d IDs", i, len(lists[i]))
		}
	}
	noDuplicates(t, lists)
}

func TestCloseGivesTheLeaseBack(t *testing.T) {
	server := startServer(t, 600000)
	gen := open(t, server, WithMeta(`{"who":"the Go test"}`), WithService("go"))
	if !strings.Contains(leasesOut(t, server), "the Go test") {
		t.Fatalf("not in the table: %s", leasesOut(t, server))
	}
	if _, err := gen.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	gen.Close()
	if strings.Contains(leasesOut(t, server), "the Go test") {
		t.Fatalf("still in the table: %s", leasesOut(t, server))
	}
}

// A server that answers nonsense gets a name for it, and nothing is minted.
func TestAnswersAreNotBelieved(t *testing.T) {
	good := `{"leases":[{"id":1,"created":%[1]d,"expired":%[2]d,"secret":"s","customEpoch":1767225600000,` +
		`"bitReserve":1,"bitTs":41,"bitId":14,"bitSeq":8}],"serverTime":%[1]d}`
	now := time.Now().UnixMilli()
	for name, answer := range map[string]string{
		"no JSON":            "<html>",
		"no leases":          `{"leases":[]}`,
		"the fallback half":  strings.Replace(fmt.Sprintf(good, now, now+60000), `"id":1`, `"id":8192`, 1),
		"65 bits":            strings.Replace(fmt.Sprintf(good, now, now+60000), `"bitTs":41`, `"bitTs":42`, 1),
		"over already":       fmt.Sprintf(good, now, now),
		"no secret":          strings.Replace(fmt.Sprintf(good, now, now+60000), `"secret":"s",`, "", 1),
		"another's request":  strings.Replace(fmt.Sprintf(good, now, now+60000), `{"leases"`, `{"requestId":"x","leases"`, 1),
		"an epoch as a text": strings.Replace(fmt.Sprintf(good, now, now+60000), "1767225600000", `"x"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, answer)
			})}
			go server.Serve(listener)
			defer server.Close()
			if gen, err := Open("http://"+listener.Addr().String(), WithTimeout(300*time.Millisecond)); err == nil {
				gen.Close()
				t.Fatal("it was believed")
			}
		})
	}
}
