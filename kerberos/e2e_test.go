package kerberos

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/types"

	"lwio"
	"lwio/internal/smb/smbauth"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/server"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// ccache makes a credential cache with one ticket, in version 4 of the format.
func ccache(t *testing.T, k *serviceTicket) string {
	t.Helper()
	be := binary.BigEndian
	b := []byte{5, 4, 0, 0} // no header
	data := func(text []byte) { b = append(be.AppendUint32(b, uint32(len(text))), text...) }
	principal := func(n types.PrincipalName, realm string) {
		b = be.AppendUint32(b, uint32(n.NameType))
		b = be.AppendUint32(b, uint32(len(n.NameString)))
		data([]byte(realm))
		for _, s := range n.NameString {
			data([]byte(s))
		}
	}
	principal(k.user, k.realm)
	principal(k.user, k.realm)
	principal(k.ticket.SName, k.ticket.Realm)
	b = be.AppendUint16(b, uint16(k.key.KeyType))
	data(k.key.KeyValue)
	for _, at := range []time.Time{time.Now(), time.Now(), k.end, k.end} {
		b = be.AppendUint32(b, uint32(at.Unix()))
	}
	b = append(b, make([]byte, 1+4+4+4)...) // no second key, flags, addresses, authorization
	text, err := k.ticket.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	data(text)
	data(nil)
	name := filepath.Join(t.TempDir(), "cache")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// serve starts a server with a directory, which requires Kerberos, and returns the directory and the URL
// of the share.
func serve(t *testing.T, d *kdc) (dir, url string) {
	t.Helper()
	dir = t.TempDir()
	backend, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "data", Backend: backend}}})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Config{
		FS: files, Providers: []rdma.Provider{iwarp.New(nil)}, Kerberos: newServer(t, d, nil), RequireKerberos: true,
		Lookup: server.Users{"Alice": ""}.Lookup, // without a password
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(t.Context(), l) })
	t.Cleanup(func() {
		_ = srv.Close()
		serving.Wait()
		files.Close()
	})
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return dir, "lwio://localhost:" + port + "/data?auth=kerberos"
}

// client returns a Client with a credential cache.
func cacheClient(t *testing.T, k *serviceTicket) *Client {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	if err := os.WriteFile(conf, []byte("[libdefaults]\n default_realm = "+testRealm+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Client{ConfigFile: conf, CacheFile: ccache(t, k)}
}

// A client with a ticket moves data over RDMA connections, plain and sealed: AUTH and seal take their keys
// from a session of Kerberos as from any other. A user without a password can log on in no other way.
//
// Source: [OP-46b], [MS-SMB2 3.3.5.5.3]
func TestRDMAConnectionsTakeKeysFromKerberosSessions(t *testing.T) {
	d := newKDC(t)
	for _, etype := range aesTypes {
		d.add(t, "cifs/localhost", testRealm, 1, etype)
	}
	dir, url := serve(t, d)
	content := bytes.Repeat([]byte("content "), 100_000)
	if err := os.WriteFile(filepath.Join(dir, "file"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, etype := range aesTypes {
		for _, sealed := range []bool{false, true} {
			k := newTicket("alice", etype, time.Now())
			k.service = "cifs/localhost"
			ticket := k.issue(t, d.key(t, k.service, testRealm, 1, etype))
			c, err := lwio.Dial(t.Context(), url, &lwio.Config{
				Kerberos: cacheClient(t, ticket), Providers: []rdma.Provider{iwarp.New(nil)}, RequireRDMA: true, RequireEncryption: sealed,
			})
			if err != nil {
				t.Fatalf("type %d, sealed %t: %v", etype, sealed, err)
			}
			got, err := fs.ReadFile(c.FS(t.Context()), "file")
			if tr := c.Transport(); err != nil || !bytes.Equal(got, content) || !tr.RDMA() || sealed != (tr.Encryption != "") {
				t.Errorf("type %d: %d bytes over %+v, %v", etype, len(got), tr, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := lwio.Dial(t.Context(), url, &lwio.Config{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without Config.Kerberos: %v", err)
	}
	plain := url[:len(url)-len("?auth=kerberos")]
	if _, err := lwio.Dial(t.Context(), plain, &lwio.Config{User: "Alice"}); err == nil {
		t.Error("a user without a password logs on by NTLM")
	}
}

// inTurn takes the ticket of each logon from the next client, and of all later ones from the last client.
type inTurn struct {
	mu      sync.Mutex
	clients []*Client
	renewed chan struct{} // closed by the end of the second logon
	count   int
}

func (c *inTurn) Begin(ctx context.Context, cr smbauth.KerberosCredentials) (smbauth.KerberosExchange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, err := c.clients[min(c.count, len(c.clients)-1)].Begin(ctx, cr)
	c.count++
	if err == nil && c.count == 2 {
		x = signalledExchange{x, c.renewed}
	}
	return x, err
}

type signalledExchange struct {
	smbauth.KerberosExchange
	finished chan struct{}
}

func (x signalledExchange) Finish(reply smbauth.KerberosCipher) (*smbauth.KerberosContext, error) {
	defer close(x.finished)
	return x.KerberosExchange.Finish(reply)
}

// RDMA connections outlive the ticket of their session, because the client authenticates again: files stay
// open, and no connection is replaced.
//
// Source: [MS-SMB2 3.2.5.1.6], [MS-SMB2 3.3.5.5.2]
func TestRDMAConnectionsSurviveTheRenewalOfTheirSession(t *testing.T) {
	d := newKDC(t)
	d.add(t, "cifs/localhost", testRealm, 1, aes256)
	dir, url := serve(t, d)
	content := bytes.Repeat([]byte("content "), 100_000)
	if err := os.WriteFile(filepath.Join(dir, "file"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sealed := range []bool{false, true} {
		tickets := &inTurn{renewed: make(chan struct{})}
		for _, life := range []time.Duration{3 * time.Second, time.Hour} {
			k := newTicket("alice", aes256, time.Now())
			k.service, k.content.EndTime = "cifs/localhost", k.content.EndTime.Add(life-time.Hour)
			tickets.clients = append(tickets.clients, cacheClient(t, k.issue(t, d.key(t, k.service, testRealm, 1, aes256))))
		}
		tickets.clients[0].Now = func() time.Time { return time.Now().Add(-time.Minute) }
		c, err := lwio.Dial(t.Context(), url, &lwio.Config{
			Kerberos: tickets, Providers: []rdma.Provider{iwarp.New(nil)}, RequireRDMA: true, RequireEncryption: sealed,
		})
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.Open(t.Context(), "file")
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(content))
		for range 2 {
			clear(got)
			if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, content) {
				t.Errorf("sealed %t: %v", sealed, err)
			}
			<-tickets.renewed
		}
		if _, err := fs.Stat(c.FS(t.Context()), "file"); err != nil {
			t.Errorf("sealed %t: a request over SMB: %v", sealed, err)
		}
		if n := c.Stats().Reconnects; n != 0 || !c.Transport().RDMA() {
			t.Errorf("sealed %t: %d connections are replaced, %+v", sealed, n, c.Transport())
		}
		if err := errors.Join(f.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A client refuses a credential cache that has no ticket for it.
func TestClientRefusesUnfitCaches(t *testing.T) {
	d := newKDC(t)
	fit := newTicket("alice", aes256, time.Now()).issue(t, d.key(t, "cifs/"+testHost, testRealm, 1, aes256))
	old := newTicket("alice", aes256, time.Now().Add(-2*time.Hour)).issue(t, d.key(t, "cifs/"+testHost, testRealm, 1, aes256))
	for name, c := range map[string]struct {
		client *Client
		user   string
		host   string
		ok     bool
		want   error
	}{
		"ticket":             {cacheClient(t, fit), "", testHost, true, nil},
		"ticket of the user": {cacheClient(t, fit), "alice", testHost, true, nil},
		"ticket of another":  {cacheClient(t, fit), "bob", testHost, false, fs.ErrPermission},
		"expired ticket":     {cacheClient(t, old), "", testHost, false, fs.ErrPermission},
		"ticket for no host": {cacheClient(t, fit), "", "other.test.lwio", false, fs.ErrPermission},
		"no cache":           {&Client{ConfigFile: cacheClient(t, fit).ConfigFile}, "", testHost, false, nil},
		"missing cache":      {&Client{ConfigFile: cacheClient(t, fit).ConfigFile, CacheFile: "/nowhere"}, "", testHost, false, fs.ErrNotExist},
		"missing krb5.conf":  {&Client{ConfigFile: "/nowhere"}, "", testHost, false, fs.ErrNotExist},
	} {
		x, err := c.client.Begin(t.Context(), credentialsOf(c.user, c.host))
		if c.ok != (err == nil) || (x == nil) != (err != nil) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole, err := os.ReadFile(cacheClient(t, fit).CacheFile)
	if err != nil {
		t.Fatal(err)
	}
	c := cacheClient(t, fit)
	for n := 0; n < len(whole); n += 7 {
		if err := os.WriteFile(c.CacheFile, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Begin(t.Context(), credentialsOf("", testHost)); err == nil {
			t.Errorf("the first %d of %d bytes are a credential cache", n, len(whole))
		}
	}
}
