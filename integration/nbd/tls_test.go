package nbd

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// certificates makes an authority and certificates of a server and a client, in the files that libnbd and QEMU expect.
func certificates(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	caKey := key()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	issue := func(name string, c *x509.Certificate, k *ecdsa.PrivateKey) {
		der, err := x509.CreateCertificate(rand.Reader, c, ca, &k.PublicKey, caKey)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name+"-cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		write(t, filepath.Join(dir, name+"-key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	}
	issue("ca", ca, caKey)
	for i, name := range []string{"server", "client"} {
		issue(name, &x509.Certificate{
			SerialNumber: big.NewInt(int64(i) + 2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}, key())
	}
	return dir
}

// serveTLS is serve with TLS and certificates of clients.
func serveTLS(t *testing.T, transport string) (d *device, dir string) {
	t.Helper()
	dir = certificates(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	return serve(t, transport, []string{"--tls-cert", in("server-cert.pem"), "--tls-key", in("server-key.pem"), "--tls-client-ca", in("ca-cert.pem")}), dir
}

func TestNbdcopyOverTLS(t *testing.T) {
	need(t, "nbdcopy")
	need(t, "nbdinfo")
	onTransports(t, func(t *testing.T, transport string) {
		d, dir := serveTLS(t, transport)
		uri := d.uri + "&tls-certificates=" + dir + "&tls-verify-peer=false" // a Unix socket has no name of a host
		local, back := filepath.Join(t.TempDir(), "local"), filepath.Join(t.TempDir(), "back")
		content := randomBytes(imageSize)
		slices.Reverse(content)
		write(t, local, content)
		output(t, "nbdcopy", "--flush", local, uri)
		if !bytes.Equal(d.content(t), content) {
			t.Error("the image has other content than was written")
		}
		output(t, "nbdcopy", uri, back)
		if !bytes.Equal(read(t, back), content) {
			t.Error("other content was read")
		}
		if out, err := exec.Command("nbdinfo", d.uri).CombinedOutput(); err == nil {
			t.Errorf("a client without a certificate was accepted:\n%s", out)
		}
	})
}

func TestQemuImgOverTLS(t *testing.T) {
	need(t, "qemu-img")
	d, dir := serveTLS(t, "shm")
	local := filepath.Join(t.TempDir(), "local.raw")
	output(t, "qemu-img", "convert", "--object", "tls-creds-x509,id=tls0,endpoint=client,dir="+dir, "--image-opts",
		"driver=raw,file.driver=nbd,file.server.type=unix,file.server.path="+d.sock+
			",file.export=disk.raw,file.tls-creds=tls0,file.tls-hostname=localhost", "-O", "raw", local)
	if !bytes.Equal(read(t, local), d.content(t)) {
		t.Error("other content was read")
	}
	plain := exec.Command("qemu-img", "info", "nbd+unix:///disk.raw?socket="+d.sock)
	if out, err := plain.CombinedOutput(); err == nil {
		t.Errorf("a client without TLS was accepted:\n%s", out)
	}
}
