package integration

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// tortureTest is a test of smbtorture, with its result if it is not success.
type tortureTest struct {
	name string
	// fails is the expectation that the test reports as missed; "" is success.
	fails string
	// why is the reason for the miss.
	why string
}

// lockTests are all tests of smb2.lock but four. "rw-none" and "ctdb-delrec-deadlock" skip
// themselves: they test a bug of Windows Server 2008, and clusters.
// "replay_smb3_specification_multi" skips itself because the server does not offer several
// channels to a session. "replay_broken_windows" requires resilient handles, which the
// server does not have.
var lockTests = []tortureTest{
	{name: "valid-request"},
	{name: "rw-shared"},
	{name: "rw-exclusive"},
	{name: "auto-unlock"},
	{name: "lock"},
	{name: "async"},
	{name: "cancel"},
	{name: "cancel-tdis"},
	{
		name: "cancel-logoff", fails: "expected NT_STATUS_FILE_CLOSED",
		why: "the session is looked for before the file, as [MS-SMB2 3.3.5.14] allows; the refusal of a session that is gone is not signed",
	},
	{name: "errorcode"},
	{name: "zerobytelength"},
	{name: "zerobyteread"},
	{name: "unlock"},
	{name: "multiple-unlock"},
	{name: "stacking"},
	{name: "contend"},
	{name: "context"},
	{name: "range"},
	{name: "overlap"},
	{name: "truncate"},
	{
		name: "replay_smb3_specification_durable", fails: "oplock_level was 0",
		why: "there are no oplocks and no durable handles, and so nothing to replay",
	},
}

// tortureResult is the last line of smbtorture about a test.
var tortureResult = regexp.MustCompile(`(?m)^(success|failure|skip|error): (\S+)`)

// judge compares the output of smbtorture with the expectation of a test.
func (c *tortureTest) judge(out string) error {
	m := tortureResult.FindStringSubmatch(out)
	switch {
	case m == nil || m[2] != c.name:
		return errors.New("it says nothing of the test")
	case c.fails == "" && m[1] != "success":
		return fmt.Errorf("%s", m[1])
	case c.fails != "" && m[1] == "success":
		return fmt.Errorf("success, where %s is expected: %s", c.fails, c.why)
	case c.fails != "" && (m[1] != "failure" || !strings.Contains(out, c.fails)):
		return fmt.Errorf("%s, which is not that: %s", m[1], c.fails)
	}
	return nil
}

// TestSmbtortureLockTestsHaveTheirResults runs Samba's tests of byte-range locks against our server.
//
// Source: [MS-SMB2 3.3.5.14]
func TestSmbtortureLockTestsHaveTheirResults(t *testing.T) {
	need(t, "smbtorture")
	s := serve(t, t.TempDir())
	for _, c := range lockTests {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			out, _ := exec.CommandContext(ctx, "smbtorture", "//"+s.host+"/data", "-p", s.port, "-U", s.user+"%"+s.password,
				"--client-protection=sign", "--option=client signing=required", "smb2.lock."+c.name).CombinedOutput()
			if err := c.judge(string(out)); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// A result other than the expected one fails a test.
func TestTortureJudgeFailsOtherResults(t *testing.T) {
	good, bad := tortureTest{name: "a"}, tortureTest{name: "a", fails: "was 0", why: "it is"}
	for _, c := range []struct {
		test tortureTest
		out  string
		ok   bool
	}{
		{good, "test: a\nsuccess: a\n", true},
		{good, "test: a\nfailure: a [\nx was 0\n]\n", false},
		{good, "test: a\nskip: a [\n", false},
		{good, "success: b\n", false},
		{good, "", false},
		{bad, "failure: a [\nx was 0\n]\n", true},
		{bad, "failure: a [\nx was 1\n]\n", false},
		{bad, "success: a\n", false},
		{bad, "skip: a [\nwas 0", false},
	} {
		if err := c.test.judge(c.out); (err == nil) != c.ok {
			t.Errorf("%+v, %q: %v", c.test, c.out, err)
		}
	}
}
