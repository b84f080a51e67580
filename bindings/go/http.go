package kazahana

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	answerMax = 1 << 20
	leasesMax = 256
	msMax     = 253402300799999 // the end of the year 9999
)

// leaseServer is http: and https: as a source: the questions, and what the answers must be. Several hosts are tried in
// turn, the one that answered last first.
type leaseServer struct {
	hosts          []string // http://host:port
	token, service string
	client         *http.Client
	timeout        time.Duration
}

// leaseJSON is a lease as seed 004 names it. Pointers tell what is missing.
type leaseJSON struct {
	ID              *uint32 `json:"id"`
	Created         *int64  `json:"created"`
	Expired         *int64  `json:"expired"`
	FallbackCreated *int64  `json:"fallbackCreated"`
	FallbackExpired *int64  `json:"fallbackExpired"`
	Secret          string  `json:"secret"`
	CustomEpoch     *int64  `json:"customEpoch"`
	BitReserve      *uint8  `json:"bitReserve"`
	BitTs           *uint8  `json:"bitTs"`
	BitID           *uint8  `json:"bitId"`
	BitSeq          *uint8  `json:"bitSeq"`
}

type grantJSON struct {
	Leases     []leaseJSON `json:"leases"`
	ServerTime *int64      `json:"serverTime"`
	Generation *uint64     `json:"generation"`
	RequestID  *string     `json:"requestId"`
}

func invalid(format string, args ...any) *Error {
	return &Error{Status: StatusInvalid, Message: fmt.Sprintf(format, args...)}
}

func nonsense(host, format string, args ...any) *Error {
	return &Error{Status: StatusStore, Message: host + ": " + fmt.Sprintf(format, args...) +
		": is this a kazahana lease server?"}
}

// newLeaseServer reads the URL. What is wrong with one is told without it: it may hold a token.
func newLeaseServer(text string, timeout time.Duration) (*leaseServer, *Error) {
	colon := strings.IndexByte(text, ':')
	body, query, _ := strings.Cut(text[colon+1:], "?")
	list := strings.TrimSuffix(strings.TrimPrefix(body, "//"), "/")
	if !strings.HasPrefix(body, "//") || list == "" || strings.ContainsAny(list, "/@# ") {
		return nil, invalid("source http: write http://host:port, or several hosts with commas")
	}
	s := &leaseServer{timeout: timeout, token: os.Getenv("KAZAHANA_TOKEN")}
	for _, host := range strings.Split(list, ",") {
		u, err := url.Parse(text[:colon] + "://" + host)
		if err != nil || u.Host == "" || u.Hostname() == "" {
			return nil, invalid("source http: one of the hosts is not host:port")
		}
		s.hosts = append(s.hosts, u.String())
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, invalid("source http: what follows the ? is not name=value&name=value")
	}
	roots, e := s.parameters(values)
	if e != nil {
		return nil, e
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	s.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a token must not follow
	}}
	return s, nil
}

func (s *leaseServer) parameters(values url.Values) (*x509.CertPool, *Error) {
	var roots *x509.CertPool
	for name, all := range values {
		if len(all) > 1 {
			return nil, invalid("source http: %s is given twice", name)
		}
		switch name {
		case "token":
			s.token = all[0]
		case "service":
			s.service = all[0]
		case "token-file":
			text, err := os.ReadFile(all[0])
			if err != nil {
				return nil, invalid("token file: %v", err)
			}
			s.token = strings.TrimSpace(string(text))
		case "cacert":
			text, err := os.ReadFile(all[0])
			roots = x509.NewCertPool()
			if err != nil || !roots.AppendCertsFromPEM(text) {
				return nil, invalid("%s has no certificate in PEM form", all[0])
			}
		default:
			return nil, invalid("source http: has no parameter %q (there are token-file, token, cacert, service)", name)
		}
	}
	if strings.ContainsAny(s.token, "\r\n") {
		return nil, invalid("source http: the token has more than one line")
	}
	return roots, nil
}

// ask sends one request to the hosts in turn, until one answers.
func (s *leaseServer) ask(method, path string, body []byte) (host string, status int, text []byte, e *Error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	var last error
	for i := range s.hosts {
		host = s.hosts[i]
		status, text, last = s.askOne(ctx, method, host+path, body)
		if last == nil && (status < 500 || i == len(s.hosts)-1) {
			s.hosts[0], s.hosts[i] = s.hosts[i], s.hosts[0]
			return host, status, text, nil
		}
	}
	if last == nil {
		return host, status, text, nil
	}
	return "", 0, nil, &Error{Status: StatusUnavailable, Message: fmt.Sprintf("%s does not answer: %v",
		strings.Join(s.hosts, ", "), last)}
}

func (s *leaseServer) askOne(ctx context.Context, method, target string, body []byte) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		if inner, ok := err.(*url.Error); ok {
			err = inner.Err
		}
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerMax+1))
	if err == nil && len(text) > answerMax {
		err = fmt.Errorf("an answer of more than %d bytes", answerMax)
	}
	return answer.StatusCode, text, err
}

// refusal is what an answer that is not the wanted one means.
func refusal(host string, status int, text []byte) *Error {
	var problem struct{ Type, Title, Detail string }
	_ = json.Unmarshal(text, &problem)
	if problem.Detail == "" {
		problem.Detail = problem.Title
	}
	e := &Error{Status: StatusStore, Message: fmt.Sprintf("%s answered %d: %.200q", host, status, problem.Detail)}
	switch {
	case status == 400:
		e.Status = StatusInvalid
	case status == 401, status == 403:
		e.Status = StatusForbidden
	case status == 404:
		e.Status = StatusNotFound
	case status == 409:
		e.Status = StatusConflict
	case strings.Contains(problem.Type, "no-machine-id-free"):
		e.Status = StatusNoFreeNode
	case status == 408, status == 429, status >= 500:
		e.Status = StatusUnavailable
	}
	return e
}

func (s *leaseServer) acquire(service, holder, requestID string, throughput uint32) (*grantJSON, *Error) {
	question := map[string]any{"serviceId": service, "throughputPerMs": throughput}
	if requestID != "" {
		question["requestId"] = requestID
	}
	if holder != "" {
		question["meta"] = json.RawMessage(holder)
	}
	body, err := json.Marshal(question)
	if err != nil {
		return nil, invalid("a holder's description must be a JSON object of texts")
	}
	host, status, text, e := s.ask("POST", "/lease", body)
	if e != nil {
		return nil, e
	}
	if status != 200 {
		return nil, refusal(host, status, text)
	}
	var grant grantJSON
	if err := json.Unmarshal(text, &grant); err != nil {
		return nil, nonsense(host, "the answer cannot be read (%v)", err)
	}
	return &grant, grant.check(host, requestID)
}

// check believes nothing: every field has its range, and no two leases overlap.
func (g *grantJSON) check(host, requestID string) *Error {
	if g.RequestID != nil && *g.RequestID != requestID || g.RequestID == nil && requestID != "" && g.Generation != nil {
		return &Error{Status: StatusUnavailable, Message: host + ": the answer is to somebody else's request and was " +
			"thrown away: a proxy in between mixes them up"}
	}
	if len(g.Leases) == 0 || len(g.Leases) > leasesMax {
		return nonsense(host, "the answer has %d leases", len(g.Leases))
	}
	now := int64(0)
	for i := range g.Leases {
		l := &g.Leases[i]
		if what := l.wrong(); what != "" {
			return nonsense(host, "a lease's %s is missing or out of range", what)
		}
		for k := range g.Leases[:i] {
			if l.overlaps(&g.Leases[k]) {
				return nonsense(host, "nodes %d and %d overlap, or are of different layouts", *l.ID, *g.Leases[k].ID)
			}
		}
		if *l.Created > now {
			now = *l.Created
		}
	}
	if g.ServerTime == nil {
		g.ServerTime = &now
	}
	for i := range g.Leases {
		if *g.ServerTime < 0 || *g.Leases[i].Expired <= *g.ServerTime {
			return nonsense(host, "the lease of node %d is over already", *g.Leases[i].ID)
		}
	}
	return nil
}

func (l *leaseJSON) wrong() string {
	switch {
	case l.CustomEpoch == nil || *l.CustomEpoch < 0 || *l.CustomEpoch > msMax:
		return "customEpoch"
	case l.BitReserve == nil || l.BitTs == nil || l.BitID == nil || l.BitSeq == nil:
		return "layout"
	case int(*l.BitReserve)+int(*l.BitTs)+int(*l.BitID)+int(*l.BitSeq) != 64 || *l.BitTs < 1 || *l.BitID < 1 ||
		*l.BitID > 32 || *l.BitSeq > 32:
		return "layout"
	case l.ID == nil || uint64(*l.ID) >= 1<<(*l.BitID-1): // the upper half is for fallback
		return "id"
	case l.Created == nil || *l.Created < 0 || *l.Created >= msMax:
		return "created"
	case l.Expired == nil || *l.Expired <= *l.Created || *l.Expired > msMax:
		return "expired"
	case (l.FallbackCreated == nil) != (l.FallbackExpired == nil):
		return "fallbackCreated"
	case l.FallbackCreated != nil && (*l.FallbackCreated < 0 || *l.FallbackExpired < *l.FallbackCreated ||
		*l.FallbackExpired > msMax):
		return "fallbackExpired"
	case l.Secret == "" || len(l.Secret) > 64 || strings.IndexByte(l.Secret, 0) >= 0:
		return "secret"
	}
	if l.FallbackCreated == nil {
		l.FallbackCreated, l.FallbackExpired = l.Expired, l.Expired
	}
	return ""
}

func (l *leaseJSON) overlaps(o *leaseJSON) bool {
	lo, other := uint64(*l.ID)<<*l.BitSeq, uint64(*o.ID)<<*o.BitSeq
	apart := lo >= other+1<<*o.BitSeq || other >= lo+1<<*l.BitSeq
	return !apart || *l.CustomEpoch != *o.CustomEpoch || *l.BitTs != *o.BitTs || *l.BitReserve != *o.BitReserve
}

func (s *leaseServer) release(service string, id uint32, timestampMs int64, signature string) *Error {
	body, _ := json.Marshal(map[string]any{"signature": signature, "timestamp": timestampMs})
	path := fmt.Sprintf("/lease/%d?serviceId=%s", id, url.QueryEscape(service))
	host, status, text, e := s.ask("DELETE", path, body)
	if e != nil {
		return e
	}
	if status != 204 && status != 200 {
		return refusal(host, status, text)
	}
	return nil
}

func (s *leaseServer) now() (ms int64, generation uint64, e *Error) {
	host, status, text, e := s.ask("GET", "/time", nil)
	if e != nil {
		return 0, 0, e
	}
	if status != 200 {
		return 0, 0, refusal(host, status, text)
	}
	var answer struct {
		ServerTime *int64 `json:"serverTime"`
		Generation uint64 `json:"generation"`
	}
	if json.Unmarshal(text, &answer) != nil || answer.ServerTime == nil || *answer.ServerTime < 0 ||
		*answer.ServerTime > msMax {
		return 0, 0, nonsense(host, "the answer's serverTime is missing or out of range")
	}
	return *answer.ServerTime, answer.Generation, nil
}
