package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// warmUp is how many reviews are sent, one after the other, before the clock counts.
	warmUp = 50
	// idle is how many connections are kept, as client-go keeps them for each host.
	idle = 25
)

// verdict is what this program reads of an AdmissionReview.
type verdict struct {
	Response struct {
		Allowed bool   `json:"allowed"`
		Patch   []byte `json:"patch"`
	} `json:"response"`
}

// reviews sends reviews to a webhook by the clock and prints the seconds of each as a JSON list.
// An answer that does not pin the pod ends it.
func reviews(arguments []string) error {
	flags := flag.NewFlagSet("reviews", flag.ExitOnError)
	url := flags.String("url", "", "of the webhook")
	ca := flags.String("ca", "", "file with its certificate authority")
	bodies := flags.String("bodies", "", "file with reviews, one a line, sent in turn")
	rate := flags.Float64("rate", 300, "reviews a second")
	count := flags.Int("count", 1000, "reviews")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	pem, err := os.ReadFile(*ca)
	if err != nil {
		return err
	}
	roots, err := authority(pem, *ca)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(*bodies)
	if err != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots},
		MaxIdleConnsPerHost: idle,
		DisableCompression:  true,
	}
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	for turn := range warmUp {
		if err := review(client, *url, lines[turn%len(lines)]); err != nil {
			return err
		}
	}
	var mutex sync.Mutex
	latencies := make([]float64, 0, *count)
	var failed error
	pace(*rate, *count, func(turn int, due time.Time) {
		err := review(client, *url, lines[turn%len(lines)])
		took := time.Since(due).Seconds()
		mutex.Lock()
		defer mutex.Unlock()
		failed = errors.Join(failed, err)
		latencies = append(latencies, took)
	})
	if failed != nil {
		return failed
	}
	return json.NewEncoder(os.Stdout).Encode(latencies)
}

func review(client *http.Client, url string, body []byte) error {
	response, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var found verdict
	if err := json.Unmarshal(text, &found); err != nil {
		return fmt.Errorf("%s: %w: %.200s", response.Status, err, text)
	}
	if !found.Response.Allowed || len(found.Response.Patch) == 0 {
		return fmt.Errorf("%s: a pod was not pinned: %.200s", response.Status, text)
	}
	return nil
}
