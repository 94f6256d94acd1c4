package base

import (
	"strings"
	"testing"
)

// Source: design, the command
func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		url  string
		want Target
		text string // of String, if it is not the URL
	}{
		{"lwio://host/share", Target{Host: "host:4450", Share: "share"}, "lwio://host:4450/share"},
		{"lwio://host:1/share/", Target{Host: "host:1", Share: "share"}, "lwio://host:1/share"},
		{
			"lwio://alice:secret@10.0.0.1:445/s/db/app.db",
			Target{User: "alice", Password: "secret", HasPassword: true, Host: "10.0.0.1:445", Share: "s", Path: "db/app.db"},
			"lwio://alice:xxxxx@10.0.0.1:445/s/db/app.db",
		},
		{"lwio://alice@h:2/s", Target{User: "alice", Host: "h:2", Share: "s"}, ""},
		{"lwio://alice:@h:2/s", Target{User: "alice", HasPassword: true, Host: "h:2", Share: "s"}, "lwio://alice:xxxxx@h:2/s"},
		{
			"lwio://a%3Ab:p%40%2F%3A@h:2/s",
			Target{User: "a:b", Password: "p@/:", HasPassword: true, Host: "h:2", Share: "s"},
			"lwio://a%3Ab:xxxxx@h:2/s",
		},
		{"lwio://a:b@c@h:2/s", Target{User: "a", Password: "b@c", HasPassword: true, Host: "h:2", Share: "s"}, "lwio://a:xxxxx@h:2/s"},
		{"lwio://[::1]/s", Target{Host: "[::1]:4450", Share: "s"}, "lwio://[::1]:4450/s"},
		{"lwio://[fe80::1]:9/s", Target{Host: "[fe80::1]:9", Share: "s"}, ""},
		{"lwio://h:2/s/my file #1", Target{Host: "h:2", Share: "s", Path: "my file #1"}, "lwio://h:2/s/my%20file%20%231"},
		{"lwio://h:2/s/my%20file", Target{Host: "h:2", Share: "s", Path: "my file"}, ""},
		{"lwio://h:2/s/100%25/ä", Target{Host: "h:2", Share: "s", Path: "100%/ä"}, "lwio://h:2/s/100%25/%C3%A4"},
		{"lwio://h:2/s//a/./b/", Target{Host: "h:2", Share: "s", Path: "a/b"}, "lwio://h:2/s/a/b"},
		{"LWIO://h:2/s", Target{Host: "h:2", Share: "s"}, "lwio://h:2/s"},
		{
			"lwio://h:2/s?provider=iwarp&completion=interrupt",
			Target{Host: "h:2", Share: "s", Provider: "iwarp", Completion: "interrupt"},
			"lwio://h:2/s?completion=interrupt&provider=iwarp",
		},
		{"lwio://h:2/s?encryption=required", Target{Host: "h:2", Share: "s", RequireEncryption: true}, ""},
		{"lwio://h:2/s?app=log+writer%26", Target{Host: "h:2", Share: "s", AppInstance: "log writer&"}, ""},
		{"lwio://h:2/s?auth=kerberos", Target{Host: "h:2", Share: "s", Kerberos: true}, ""},
	} {
		got, err := ParseURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if *got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.url, *got, c.want)
		}
		text := c.text
		if text == "" {
			text = c.url
		}
		if got.String() != text {
			t.Errorf("%s: prints as %s, want %s", c.url, got, text)
		}
		again, err := ParseURL(got.String())
		if err != nil {
			t.Errorf("%s: printed as %s, which is refused: %v", c.url, got, err)
		} else if again.Path != got.Path || again.Share != got.Share {
			t.Errorf("%s: read back as %+v", c.url, again)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for _, url := range []string{
		"", "host/share", "http://host/share", "lwio:/host/share", "lwio://", "lwio://host", "lwio://host/",
		"lwio:///share", "lwio://h:0/s", "lwio://h:65536/s", "lwio://h:x/s", "lwio://::1/s", "lwio://[::1/s", "lwio://::1]/s", "lwio://h]/s", "lwio://h h/s",
		"lwio://h/s/../t", "lwio://h/s/%2e%2e/t", "lwio://h/s/a%2Fb", "lwio://h/s/100%", "lwio://h/s/a%5Cb", "lwio://h/s/a%00b",
		"lwio://h/s?provder=iwarp", "lwio://h/s?completion=quick", "lwio://h/s?encryption=off", "lwio://h/s?encryption=", "lwio://h/s?auth=ntlm", "lwio://h/s?auth=", "lwio://h/s?connections=0", "lwio://h/s?connections=9", "lwio://h/s?%zz", "lwio://h/s?a;b",
		"lwio://u:hunter2@h:x/s", "lwio://u:hun%ter2@h/s", "lwio://u:hunter2@h", "u:hunter2@h/s", "lwio://u:hun/hunter2@h/s",
	} {
		got, err := ParseURL(url)
		if err == nil {
			t.Errorf("%q: took it as %+v", url, got)
			continue
		}
		if !strings.HasPrefix(err.Error(), "lwio: parse") {
			t.Errorf("%q: %v", url, err)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error tells the password: %v", url, err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("lwio://alice:secret@10.0.0.1:445/s/db/app.db?provider=iwarp")
	f.Add("lwio://[::1]/s/my file #1%25")
	f.Fuzz(func(t *testing.T, raw string) {
		a, err := ParseURL(raw)
		if err != nil {
			return
		}
		b, err := ParseURL(a.String())
		if err != nil {
			t.Fatalf("%q prints as %q: %v", raw, a, err)
		}
		if a.HasPassword {
			b.Password = a.Password
		}
		if *a != *b {
			t.Fatalf("%q: %+v becomes %+v", raw, a, b)
		}
	})
}
