package smbserver

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// shareEnum is NetrShareEnum, level 0.
const shareEnum = "05000003100000003c00000002000000240000000000" + "0f00" +
	"000000000000000000000000" + "040002000000000000000000" + "ffffffff" + "0800020000000000"

// The pipe srvsvc lists the shares to which the user may connect, and IPC$. A long list has several
// messages, each read as one.
//
// Source: [MS-SRVS 3.1.4.8]
func TestUserSeesTheSharesThatAllowAConnect(t *testing.T) {
	var shares []vfs.Share
	dir := t.TempDir()
	for i := range 100 {
		b, err := posix.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		rights := vfs.Rights(i % 3)
		shares = append(shares, vfs.Share{
			Name: fmt.Sprintf("%s share %02d", rights, i), Backend: b,
			Rights: func(user string) vfs.Rights {
				if user != testUser {
					return vfs.NoAccess
				}
				return rights
			},
		})
	}
	fs, err := vfs.New(vfs.Config{Shares: shares})
	if err != nil {
		t.Fatal(err)
	}
	_, addr, _ := testServer(t, func(c *Config) {
		t.Cleanup(func() {
			if err := fs.Close(); err != nil {
				t.Error(err)
			}
		})
		c.FS = fs
	})
	request, err := hex.DecodeString(shareEnum)
	if err != nil {
		t.Fatal(err)
	}
	for user, most := range map[string]int{testUser: 66, "bob": 0} {
		c := dial(t, addr)
		c.mustNegotiate(0x0311)
		c.mustSetup(user, testPassword)
		c.mustConnect("IPC$")
		id := c.mustCreate(create{name: "SRVSVC", access: 3, share: 7, disposition: 1})
		r := c.want(ntstatus.Success, cmdIoctl, ioctlBody(id, fsctlTransceive, request, 4280))
		part := r.body[48 : 48+le.Uint32(r.body[36:])]
		list, fragments := bytes.Clone(part), 1
		for part[3]&2 == 0 { // not the last fragment
			r := c.want(ntstatus.Success, cmdRead, readBody(id, 0, 4280, 0))
			part = r.body[16:]
			list, fragments = append(list, part...), fragments+1
		}
		c.want(ntstatus.PipeEmpty, cmdRead, readBody(id, 0, 4280, 0))
		n, hidden := bytes.Count(list, utf16le(" share ")), bytes.Count(list, utf16le("no access"))
		if n != most || hidden != 0 || bytes.Count(list, utf16le("IPC$")) != 1 || (fragments > 1) != (most > 0) {
			t.Errorf("%s: %d shares, %d of them without access, %d fragments", user, n, hidden, fragments)
		}
		// A message that is no PDU breaks the pipe.
		c.want(ntstatus.PipeDisconnected, cmdIoctl, ioctlBody(id, fsctlTransceive, request[:20], 4280))
	}
}
