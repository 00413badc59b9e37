// Command service forwards TCP connections to ready backends, as a Kubernetes Service does.
//
// The API server of a local run cannot route to Services, so its webhook configurations name
// this program's port instead. It knows nothing of TLS or HTTP: what a replica breaks, breaks for
// the API server too. A backend that turns unready gets no new connections and keeps those it has.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type backend struct {
	address string
	probe   string
	client  http.Client
	ready   atomic.Bool
}

type backends []*backend

func (b *backends) String() string { return fmt.Sprint(len(*b)) }

func (b *backends) Set(value string) error {
	address, probe, found := strings.Cut(value, ",")
	if !found || address == "" || probe == "" {
		return errors.New("want HOST:PORT,READINESS-URL")
	}
	client := http.Client{Timeout: time.Second}
	*b = append(*b, &backend{address: address, probe: probe, client: client})
	return nil
}

// watch keeps one backend's readiness up to date until the context ends.
func (b *backend) watch(ctx context.Context, interval time.Duration) {
	for ctx.Err() == nil {
		b.look(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// look probes once.
func (b *backend) look(ctx context.Context) {
	ready := b.answersReady(ctx)
	if b.ready.Swap(ready) != ready {
		log.Printf("backend %s ready=%t", b.address, ready)
	}
}

func (b *backend) answersReady(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.probe, nil)
	if err != nil {
		return false
	}
	response, err := b.client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK
}

// pick connects to the next ready backend, round robin, skipping those that refuse.
//
// A Service hears of a backend that became ready before it hears of another one's end that waited
// for it. Probes of their own pace have no such order, so nobody is refused before a second look.
func (b backends) pick(turn uint64) (net.Conn, error) {
	connection, err := b.connect(turn)
	if err == nil {
		return connection, nil
	}
	for _, each := range b {
		each.look(context.Background())
	}
	return b.connect(turn)
}

func (b backends) connect(turn uint64) (net.Conn, error) {
	last := errors.New("no backend is ready")
	for i := range b {
		candidate := b[(turn+uint64(i))%uint64(len(b))]
		if !candidate.ready.Load() {
			continue
		}
		connection, err := net.DialTimeout("tcp", candidate.address, time.Second)
		if err == nil {
			return connection, nil
		}
		last = err
	}
	return nil, last
}

// forward copies both ways until both sides are done; a half-closed side stays half closed.
func forward(client, server *net.TCPConn) {
	var both sync.WaitGroup
	for _, pair := range [][2]*net.TCPConn{{client, server}, {server, client}} {
		both.Go(func() {
			_, err := io.Copy(pair[1], pair[0])
			if err != nil {
				// A reset on one side is passed on as a reset, not as an orderly end.
				_ = pair[0].SetLinger(0)
				_ = pair[1].SetLinger(0)
				_ = pair[0].Close()
				_ = pair[1].Close()
				return
			}
			_ = pair[1].CloseWrite()
		})
	}
	both.Wait()
	_ = client.Close()
	_ = server.Close()
}

func serve(listener *net.TCPListener, targets backends) {
	for turn := uint64(0); ; turn++ {
		client, err := listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			log.Printf("accept: %v", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go func() {
			_ = client.SetNoDelay(true)
			server, err := targets.pick(turn)
			if err != nil {
				log.Printf("refused: %v", err)
				_ = client.SetLinger(0)
				_ = client.Close()
				return
			}
			upstream := server.(*net.TCPConn)
			_ = upstream.SetNoDelay(true)
			forward(client, upstream)
		}()
	}
}

func main() {
	var targets backends
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	interval := flag.Duration("interval", 200*time.Millisecond, "time between two readiness probes")
	flag.Var(&targets, "backend", "HOST:PORT,READINESS-URL of a backend; repeat for each")
	flag.Parse()
	if len(targets) == 0 {
		log.Fatal("at least one -backend is needed")
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, target := range targets {
		go target.watch(ctx, *interval)
	}
	go func() {
		<-ctx.Done()
		_ = listener.Close()
	}()
	log.Printf("listening on %s", listener.Addr())
	serve(listener.(*net.TCPListener), targets)
}
