// Command loadgen creates copies of one pod in namespaces, or sends admission reviews to a webhook
// (`loadgen reviews`), and prints how long each took, as JSON.
//
// With -rate the requests start by the clock, whether or not earlier ones have been answered, and
// a latency counts from the moment its request was due: a stall is charged to every request that
// it holds up. Without, -concurrency workers send one request after the other.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// kubeconfig is what this program reads of a kubeconfig in JSON; []byte fields are base64 there.
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
			CA     []byte `json:"certificate-authority-data"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Certificate []byte `json:"client-certificate-data"`
			Key         []byte `json:"client-key-data"`
		} `json:"user"`
	} `json:"users"`
}

type client struct {
	http   *http.Client
	server string
	body   []byte
}

// result is what became of the requests of one namespace.
type result struct {
	Seconds   float64   `json:"seconds"`   // from the first request's start to the last answer
	Latencies []float64 `json:"latencies"` // seconds, of created pods, in the order of their answers
	Failed    int       `json:"failed"`
	Error     string    `json:"error,omitempty"` // the first one

	began, ended time.Time
	mutex        sync.Mutex
}

// authority reads the certificates of a PEM text that lies at path.
func authority(pem []byte, path string) (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate authority", path)
	}
	return roots, nil
}

func connect(path string, bodyPath string) (*client, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config kubeconfig
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(config.Clusters) != 1 || len(config.Users) != 1 {
		return nil, fmt.Errorf("%s: want one cluster and one user", path)
	}
	cluster, user := config.Clusters[0].Cluster, config.Users[0].User
	pair, err := tls.X509KeyPair(user.Certificate, user.Key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	roots, err := authority(cluster.CA, path)
	if err != nil {
		return nil, err
	}
	body, err := os.ReadFile(bodyPath)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig:    &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
		ForceAttemptHTTP2:  true, // one connection, as client-go has it
		DisableCompression: true,
	}
	client := &client{
		http:   &http.Client{Transport: transport, Timeout: time.Minute},
		server: cluster.Server,
		body:   body,
	}
	// The handshake is nobody's latency.
	return client, client.send(http.MethodGet, "/api/v1/namespaces/default", nil, http.StatusOK)
}

func (c *client) send(method, path string, body []byte, want int) error {
	request, err := http.NewRequest(method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "schedclass-loadgen")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != want {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// create creates one pod; its latency counts from due.
func (c *client) create(namespace string, due time.Time, into *result) {
	err := c.send(http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods", c.body, http.StatusCreated)
	end := time.Now()
	into.mutex.Lock()
	defer into.mutex.Unlock()
	if end.After(into.ended) {
		into.ended = end
	}
	if into.began.IsZero() || due.Before(into.began) {
		into.began = due
	}
	if err != nil {
		into.Failed++
		if into.Error == "" {
			into.Error = err.Error()
		}
		return
	}
	into.Latencies = append(into.Latencies, end.Sub(due).Seconds())
}

// saturate keeps `workers` requests in flight until `count` are done.
func (c *client) saturate(workers, count int, next func(int) (string, *result)) {
	var taken atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for turn := int(taken.Add(1)) - 1; turn < count; turn = int(taken.Add(1)) - 1 {
				namespace, into := next(turn)
				c.create(namespace, time.Now(), into)
			}
		})
	}
	all.Wait()
}

// pace starts `count` requests by the clock and waits for their answers.
func pace(rate float64, count int, request func(turn int, due time.Time)) {
	var all sync.WaitGroup
	start := time.Now().Add(10 * time.Millisecond)
	for turn := range count {
		due := start.Add(time.Duration(float64(turn) / rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		all.Go(func() { request(turn, due) })
	}
	all.Wait()
}

func run() error {
	if len(os.Args) > 1 && os.Args[1] == "reviews" {
		return reviews(os.Args[2:])
	}
	config := flag.String("kubeconfig", "", "kubeconfig in JSON, with a client certificate")
	body := flag.String("body", "", "file with the pod in JSON; it needs a generateName")
	count := flag.Int("count", 100, "requests in each namespace")
	concurrency := flag.Int("concurrency", 8, "requests in flight, without -rate")
	rate := flag.Float64("rate", 0, "requests a second in all")
	turn := flag.Int("turn", 1, "requests in one namespace before it is the next one's turn")
	flag.Parse()
	namespaces := flag.Args()
	if len(namespaces) == 0 || *count < 1 || *concurrency < 1 || *turn < 1 {
		return errors.New("want at least one namespace, and numbers above 0")
	}
	if *count%*turn != 0 {
		return errors.New("-count has to be a multiple of -turn, or namespaces get unequal shares")
	}
	client, err := connect(*config, *body)
	if err != nil {
		return err
	}
	results := make(map[string]*result)
	for _, namespace := range namespaces {
		results[namespace] = &result{Latencies: []float64{}}
	}
	next := func(number int) (string, *result) {
		namespace := namespaces[number / *turn % len(namespaces)]
		return namespace, results[namespace]
	}
	if *rate > 0 {
		pace(*rate, *count*len(namespaces), func(turn int, due time.Time) {
			namespace, into := next(turn)
			client.create(namespace, due, into)
		})
	} else {
		client.saturate(*concurrency, *count*len(namespaces), next)
	}
	for _, each := range results {
		each.Seconds = each.ended.Sub(each.began).Seconds()
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatalf("loadgen: %v", err)
	}
}
