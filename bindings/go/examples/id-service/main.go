// The service of unique IDs: GET /id answers {"data":{"id":...}} with a worker's next ID.
//
//	WORKER_ID=5 go run kazahana/examples/id-service -listen 127.0.0.1:8080
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"os"
	"strconv"

	"kazahana/snowflake"
)

type data struct {
	ID    int64  `json:"id"`
	IDStr string `json:"id_str"` // JavaScript loses digits of numbers past 2^53
}

func workerID() (int64, error) {
	text, ok := os.LookupEnv("WORKER_ID")
	if !ok {
		return 0, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

func handler(gen *snowflake.Generator) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/id", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "GET only", http.StatusMethodNotAllowed)
			return
		}
		id, err := gen.Next()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(map[string]data{"data": {id, strconv.FormatInt(id, 10)}})
	})
	return mux
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	worker, err := workerID()
	if err != nil {
		log.Fatalf("WORKER_ID is not a number: %v", err)
	}
	gen, err := snowflake.New(worker)
	if err != nil {
		log.Fatal(err)
	}
	defer gen.Close()
	log.Printf("worker %d, http://%s/id", worker, *listen)
	log.Fatal(http.ListenAndServe(*listen, handler(gen)))
}
