package kerberos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"lwio/internal/smb/smbauth"
)

// hostileKDC serves each connection by serve, which gets the request, and returns a Client that uses it over
// TCP only.
func hostileKDC(t *testing.T, serve func(nc net.Conn, request []byte)) *Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer nc.Close()
				var head [4]byte
				if _, err := io.ReadFull(nc, head[:]); err != nil {
					return
				}
				request := make([]byte, binary.BigEndian.Uint32(head[:]))
				if _, err := io.ReadFull(nc, request); err == nil {
					serve(nc, request)
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	text := fmt.Sprintf("[libdefaults]\n default_realm = %[1]s\n udp_preference_limit = 1\n[realms]\n %[1]s = {\n  kdc = %[2]s\n }\n", testRealm, l.Addr())
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Client{ConfigFile: conf}
}

// framed returns a reply of a KDC over TCP.
func framed(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }

// preAuthRequired returns the error message of a KDC that asks for pre-authentication with the parameters of a
// key.
func preAuthRequired(t *testing.T, info ...types.ETypeInfo2Entry) []byte {
	t.Helper()
	b, err := asn1.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	b, err = asn1.Marshal(types.PADataSequence{{PADataType: patype.PA_ETYPE_INFO2, PADataValue: b}})
	if err != nil {
		t.Fatal(err)
	}
	e := messages.NewKRBError(types.NewPrincipalName(nametype.KRB_NT_SRV_INST, "krbtgt/"+testRealm), testRealm, errorcode.KDC_ERR_PREAUTH_REQUIRED, "")
	e.EData = b
	b, err = e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A hostile KDC, or an attacker in its place, gets no memory beyond the bound of a reply, no long
// computation, no request with a weak key or a key from few iterations, and no panic.
//
// Source: [RFC 4120 §7.2.2], [RFC 4120 §5.2.7.5]
func TestHostileKDC(t *testing.T) {
	iterations := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	for name, c := range map[string]struct {
		reply []byte
		want  string
	}{
		"long reply":            {[]byte{0xFF, 0xFF, 0xFF, 0xFF, 1}, "a reply of 4294967295 bytes"},
		"reply above the bound": {iterations(maxReply + 1), "a reply of 131073 bytes"},
		"empty reply":           {iterations(0), "a reply of 0 bytes"},
		"short reply":           {[]byte{0, 1, 0, 0, 1}, "unexpected EOF"},
		"no reply":              {nil, "EOF"},
		"no message":            {framed([]byte("abcdefgh")), ""},
		"iterations":            {framed(preAuthRequired(t, types.ETypeInfo2Entry{EType: aes256, Salt: "a", S2KParams: iterations(maxIterations + 1)})), "iterations"},
		"few iterations":        {framed(preAuthRequired(t, types.ETypeInfo2Entry{EType: aes256, Salt: "a", S2KParams: iterations(minIterations - 1)})), "iterations"},
		"few iterations, SHA-2": {framed(preAuthRequired(t, types.ETypeInfo2Entry{EType: 20, Salt: "a", S2KParams: iterations(minIterationsSHA2 - 1)})), "iterations"},
		"no iterations":         {framed(preAuthRequired(t, types.ETypeInfo2Entry{EType: aes256, Salt: "a", S2KParams: iterations(0)})), "iterations"},
		"RC4":                   {framed(preAuthRequired(t, types.ETypeInfo2Entry{EType: 23})), "no encryption type with AES"},
		"no types":              {framed(preAuthRequired(t)), "no encryption type with AES"},
	} {
		var mu sync.Mutex
		requests := 0
		k := hostileKDC(t, func(nc net.Conn, _ []byte) {
			mu.Lock()
			requests++
			mu.Unlock()
			_, _ = nc.Write(c.reply)
		})
		x, err := k.Begin(t.Context(), smbauth.KerberosCredentials{User: "alice", Realm: testRealm, Password: "secret", Host: testHost})
		if x != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		mu.Lock()
		if requests != 1 {
			t.Errorf("%s: %d requests", name, requests)
		}
		mu.Unlock()
	}
}

// A KDC that does not answer is left when the context ends.
func TestSilentKDC(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	k := hostileKDC(t, func(net.Conn, []byte) {
		cancel()
		<-done
	})
	_, err := k.Begin(ctx, smbauth.KerberosCredentials{User: "alice", Realm: testRealm, Password: "secret", Host: testHost})
	close(done)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
