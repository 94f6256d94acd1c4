package rsock_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
	"lwio/rsock"
)

// An HTTP server and its client use RDMA after their listener and their dialer are replaced.
func Example() {
	cfg := &rsock.Config{Providers: []rdma.Provider{shm.New(nil), iwarp.New(nil)}}

	l, err := rsock.Listen("tcp", "127.0.0.1:0", cfg) // instead of net.Listen
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello, %s", r.URL.Query().Get("name"))
	})}
	go server.Serve(l)
	defer server.Close()

	d := &rsock.Dialer{Config: cfg} // instead of net.Dialer
	transport := &http.Transport{DialContext: d.DialContext}
	client := &http.Client{Transport: transport}
	defer transport.CloseIdleConnections()

	reply, err := client.Get("http://" + l.Addr().String() + "/?name=gopher")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	fmt.Println(string(body), err)
	// Output: hello, gopher <nil>
}

// A connection reports its transport.
func ExampleConn_Transport() {
	cfg := &rsock.Config{Providers: []rdma.Provider{iwarp.New(nil)}}
	tcpOnly, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tcpOnly.Close()
	c, err := (&rsock.Dialer{Config: cfg}).DialConn(context.Background(), "tcp", tcpOnly.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	t := c.Transport()
	fmt.Println(t.Name, t.RDMA(), t.Skipped[0].Provider)
	// Output: tcp false iwarp
}
