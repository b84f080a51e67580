package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"kazahana"
	"kazahana/snowflake"
)

func TestGetIDAnswersAsTheSeedDoes(t *testing.T) {
	if !kazahana.Available {
		t.Skip("this build has no cgo, so it has no generators")
	}
	gen, err := snowflake.New(9)
	if err != nil {
		t.Fatal(err)
	}
	defer gen.Close()
	server := httptest.NewServer(handler(gen))
	defer server.Close()
	last := int64(0)
	for i := 0; i < 100; i++ {
		answer, err := http.Get(server.URL + "/id")
		if err != nil {
			t.Fatal(err)
		}
		var body struct{ Data data }
		err = json.NewDecoder(answer.Body).Decode(&body)
		answer.Body.Close()
		if err != nil || body.Data.ID <= last || body.Data.IDStr != strconv.FormatInt(body.Data.ID, 10) {
			t.Fatalf("%+v after %d: %v", body, last, err)
		}
		last = body.Data.ID
	}
	answer, err := http.Post(server.URL+"/id", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", answer.StatusCode)
	}
}
