package integration

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// tortureSuite is a suite of smbtorture, with the result of each of its tests.
type tortureSuite struct {
	name   string
	passes []string
	fails  []tortureFailure
	// skips are tests that skip themselves: they need a feature that the server does not offer, such
	// as several connections of a session, a bug of Windows Server 2008, a cluster, or Kerberos.
	skips []string
}

// tortureFailure is a reason for which tests fail.
type tortureFailure struct {
	why string
	// says is a part of the message of each of the tests.
	says  string
	tests []string
}

// tortureSuites are the suites, with all their tests. Samba's own server fails the tests whose reason
// names Samba, at the same place.
var tortureSuites = []tortureSuite{
	{name: "connect", passes: []string{"connect"}},
	{name: "read", passes: []string{"eof", "position", "dir", "access"}, skips: []string{"bug14607"}},
	{name: "rw", passes: []string{"rw1", "rw2"}, fails: []tortureFailure{
		{"a file may be as long as the file system allows, which is more than on Windows", "status was NT_STATUS_OK, expected NT_STATUS_INVALID_PARAMETER", []string{"invalid"}},
	}},
	{name: "lock", passes: []string{
		"valid-request", "rw-shared", "rw-exclusive", "auto-unlock", "lock", "async", "cancel", "cancel-tdis", "cancel-logoff", "errorcode",
		"zerobytelength", "zerobyteread", "unlock", "multiple-unlock", "stacking", "contend", "context", "range", "overlap", "truncate",
		"replay_smb3_specification_durable",
	}, fails: []tortureFailure{
		{"there are no resilient handles", "NT_STATUS_INVALID_DEVICE_REQUEST", []string{"replay_broken_windows"}},
	}, skips: []string{"rw-none", "replay_smb3_specification_multi", "ctdb-delrec-deadlock"}},
	{name: "create", passes: []string{
		"brlocked", "multi", "delete", "leading-slash", "impersonation", "mkdir-dup", "dir-alloc-size", "dosattr_tmp_dir",
		"bench-path-contention-shared",
	}, fails: []tortureFailure{
		{"Windows refuses a value that Samba accepts too", "Incorrect status NT_STATUS_OK - should be NT_STATUS_INVALID_PARAMETER", []string{"gentest"}},
		{"no space is allocated in advance", "Incorrect value for io.out.alloc_size", []string{"blob"}},
		{"the preparation fails in the client: Samba too", "Incorrect status NT_STATUS_INVALID_PARAMETER", []string{"open"}},
		{"access lists are not stored: Samba too", "smb2_util_verify_sd", []string{"aclfile", "acldir"}},
		{"access lists are not stored", "NT_STATUS_NOT_SUPPORTED", []string{"nulldacl"}},
		{"there are no quotas", "NT_STATUS_OBJECT_NAME_INVALID", []string{"quota-fake-file"}},
	}},
	{name: "dir", passes: []string{"find", "fixed", "many", "sorted", "large-files"}, fails: []tortureFailure{
		{"the search fails in the client: Samba too", "NT_STATUS_INVALID_PARAMETER", []string{"one", "modify"}},
	}, skips: []string{"file-index"}},
	{name: "getinfo", passes: []string{"fsinfo", "qfs_buffercheck", "qsec_buffercheck", "granted"}, fails: []tortureFailure{
		{"the preparation fails in the client: Samba too", "setup complex file", []string{"complex"}},
		{"there are no extended attributes", "NT_STATUS_EAS_NOT_SUPPORTED", []string{"qfile_buffercheck", "getinfo_access"}},
		{"names are case-sensitive", "NT_STATUS_OBJECT_NAME_NOT_FOUND", []string{"normalized"}},
	}},
	{name: "compound", passes: []string{
		"related1", "related2", "related3", "related5", "related6", "related8", "related9", "unrelated1", "invalid1", "invalid2",
		"invalid3", "invalid4", "interim1", "interim2", "compound-break", "create-write-close",
	}, fails: []tortureFailure{
		{"access lists are not stored: Samba too, a little later", "smb2_setinfo_file failed", []string{"related4", "related7"}},
		{"there are no streams: Samba too", "NT_STATUS_OBJECT_NAME_INVALID", []string{"compound-padding"}},
	}},
	{name: "compound_async", passes: []string{"flush_close", "flush_flush"}},
	{name: "credits", passes: []string{"session_setup_credits_granted", "single_req_credits_granted", "skipped_mid"}},
	{name: "tcon", passes: []string{"tcon"}},
	{name: "rename", passes: []string{
		"simple", "simple_nodelete", "no_sharing", "share_delete_and_delete_access", "no_share_delete_but_delete_access",
		"share_delete_no_delete_access", "no_share_delete_no_delete_access", "msword", "rename_dir_openfile", "rename_dir_bench",
		"close-full-information",
	}},
	{name: "sharemode", passes: []string{"sharemode-access", "access-sharemode", "bug14375"}},
	// The tests of a server that takes leases of its kernel, so that local programs break oplocks. Ours takes none.
	{name: "kernel-oplocks", passes: []string{"kernel_oplocks1", "kernel_oplocks3"}, fails: []tortureFailure{
		{"there are no streams", "NT_STATUS_OBJECT_NAME_INVALID", []string{"kernel_oplocks2", "kernel_oplocks4", "kernel_oplocks5", "kernel_oplocks6"}},
		{"beside leases of the kernel there is no level II", "wrong value for oplock got 0x1", []string{"kernel_oplocks7"}},
	}, skips: []string{"kernel_oplocks8"}},
	{name: "durable-open", passes: []string{
		"open-oplock", "open-lease", "stat-open", "reopen1", "reopen3", "delete_on_close1", "open2-lease", "open2-oplock", "oplock", "lease",
		"reopen1a", "reopen1a-lease", "reopen2", "reopen2a", "delete_on_close2", "file-position", "lock-oplock", "lock-lease",
		"read-only", "reopen2-lease", "reopen2-lease-v2",
	}, fails: []tortureFailure{
		{"LOGOFF closes all opens of its session", "Incorrect status NT_STATUS_OBJECT_NAME_NOT_FOUND - should be NT_STATUS_OK", []string{"reopen4"}},
		{"no space is allocated in advance", "wrong value for (&io)->out.alloc_size got", []string{"alloc-size"}},
	}},
	{name: "durable-open-disconnect", passes: []string{"open-oplock-disconnect"}},
	{name: "durable-v2-open", passes: []string{
		"persistent-open-oplock", "persistent-open-lease", "create-blob", "reopen1", "open-oplock", "open-lease", "reopen2c",
		"reopen1a", "reopen1a-lease", "reopen2", "reopen2b", "durable-v2-setinfo", "reopen2-lease", "reopen2-lease-v2", "app-instance",
	}},
	{name: "durable-v2-delay", passes: []string{"durable_v2_reconnect_delay", "durable_v2_reconnect_delay_msec"}},
	{name: "replay", passes: []string{
		"replay-commands", "replay-regular", "replay5", "replay7",
		"replay-dhv2-oplock1", "replay-dhv2-oplock2", "replay-dhv2-oplock3", "replay-dhv2-oplock-lease",
		"replay-dhv2-lease1", "replay-dhv2-lease2", "replay-dhv2-lease3", "replay-dhv2-lease-oplock",
		"dhv2-pending1n-vs-violation-lease-close-sane", "dhv2-pending1n-vs-violation-lease-ack-sane",
		"dhv2-pending1n-vs-oplock-sane", "dhv2-pending1n-vs-lease-sane", "dhv2-pending1l-vs-oplock-sane", "dhv2-pending1l-vs-lease-sane",
		"dhv2-pending1o-vs-oplock-sane", "dhv2-pending1o-vs-lease-sane",
	}, fails: []tortureFailure{
		{"a repeated CREATE is refused while the first one waits: the test of the same name with sane expects that", "Incorrect status NT_STATUS_FILE_NOT_AVAILABLE - should be NT_STATUS_SHARING_VIOLATION", []string{
			"dhv2-pending1n-vs-violation-lease-close-windows", "dhv2-pending1n-vs-violation-lease-ack-windows",
		}},
		{"a repeated CREATE is refused while the first one waits: the test of the same name with sane expects that", "Incorrect status NT_STATUS_FILE_NOT_AVAILABLE - should be NT_STATUS_ACCESS_DENIED", []string{
			"dhv2-pending1n-vs-oplock-windows", "dhv2-pending1n-vs-lease-windows", "dhv2-pending1l-vs-oplock-windows",
			"dhv2-pending1l-vs-lease-windows", "dhv2-pending1o-vs-oplock-windows", "dhv2-pending1o-vs-lease-windows",
		}},
		{"a repeated CREATE finds its open after a break of the oplock too", "expected a different number: data 0", []string{"replay6"}},
		{"a session has one connection, and so no channel sequence", "failed to test CSN", []string{"channel-sequence"}},
	}, skips: []string{
		"dhv2-pending2n-vs-oplock-sane", "dhv2-pending2n-vs-oplock-windows", "dhv2-pending2n-vs-lease-sane",
		"dhv2-pending2n-vs-lease-windows", "dhv2-pending2l-vs-oplock-sane", "dhv2-pending2l-vs-oplock-windows",
		"dhv2-pending2l-vs-lease-sane", "dhv2-pending2l-vs-lease-windows", "dhv2-pending2o-vs-oplock-sane",
		"dhv2-pending2o-vs-oplock-windows", "dhv2-pending2o-vs-lease-sane", "dhv2-pending2o-vs-lease-windows",
		"dhv2-pending3n-vs-oplock-sane", "dhv2-pending3n-vs-oplock-windows", "dhv2-pending3n-vs-lease-sane",
		"dhv2-pending3n-vs-lease-windows", "dhv2-pending3l-vs-oplock-sane", "dhv2-pending3l-vs-oplock-windows",
		"dhv2-pending3l-vs-lease-sane", "dhv2-pending3l-vs-lease-windows", "dhv2-pending3o-vs-oplock-sane",
		"dhv2-pending3o-vs-oplock-windows", "dhv2-pending3o-vs-lease-sane", "dhv2-pending3o-vs-lease-windows", "replay3", "replay4",
	}},
	{name: "session", passes: []string{
		"two_logoff", "ntlmssp_bug14932", "reconnect1", "reconnect2", "reauth1", "reauth6", "signing-hmac-sha-256", "signing-aes-128-cmac",
		"signing-aes-128-gmac", "encryption-aes-128-ccm", "encryption-aes-128-gcm", "encryption-aes-256-ccm", "encryption-aes-256-gcm",
	}, fails: []tortureFailure{
		{"there is no anonymous logon", "NT_STATUS_ACCESS_DENIED, expected NT_STATUS_OK", []string{"reauth2", "reauth3", "reauth4", "reauth5"}},
		{"a session has one connection", "status was NT_STATUS_ACCESS_DENIED, expected", bindTests},
	}, skips: []string{
		"expire1n", "expire1s", "expire1e", "expire2s", "expire2e", "expire_disconnect", "bind1", "bind2", "bind_invalid_auth",
		"bind_different_user",
	}},
}

// bindTests are the tests of smb2.session that bind a session to a second connection.
var bindTests = func() (names []string) {
	pairs := "2to3 3to2 3to3 3encGtoC 3signCtoH 3signCtoG 3signHtoC 3signHtoG 3signGtoC 3signGtoH " +
		"3sneGtoC 3sneGtoH 3sneCtoG 3sneHtoG 3signC30toG 3signH2XtoG 3signGtoC30 3signGtoH2X 210"
	for _, pair := range strings.Fields(pairs) {
		names = append(names, "bind_negative_smb"+pair+"s", "bind_negative_smb"+pair+"d")
	}
	return append(names, "bind_negative_smb202")
}()

// oplockTests are the tests of smb2.oplock without two: batch22a passes too, and waits for 35 seconds for a
// client that does not answer; batch22b blocks the packets of a connection, as root.
var oplockTests = tortureSuite{name: "oplock", passes: []string{
	"exclusive1", "exclusive2", "exclusive3", "exclusive4", "exclusive5", "exclusive6", "exclusive9", "batch1", "batch2", "batch3", "batch4",
	"batch5", "batch6", "batch7", "batch8", "batch9", "batch9a", "batch10", "batch11", "batch12", "batch13", "batch14", "batch15", "batch16",
	"batch19", "batch20", "batch21", "batch23", "batch24", "batch25", "doc", "brl1", "brl2", "brl3", "levelii500", "levelii501",
	"levelii502", "statopen1",
}, fails: []tortureFailure{
	{"there are no streams", "NT_STATUS_OBJECT_NAME_INVALID", []string{"batch26", "stream1"}},
}}

// leaseTests are the tests of smb2.lease without some that pass too: timeout and timeout-disconnect wait for a
// client that does not answer, and break and oplock for 25 seconds in all for breaks that do not come. rename_wait passes
// if the client takes a break before the answers to four requests that it sent later; nothing orders them.
var leaseTests = tortureSuite{name: "lease", passes: []string{
	"break_twice", "nobreakself", "statopen", "statopen2", "statopen3", "statopen4", "upgrade", "upgrade2", "upgrade3",
	"multibreak", "breaking1", "breaking2", "breaking3", "v2_breaking3", "breaking4", "breaking5", "breaking6", "lock1",
	"complex1", "v2_epoch1", "v2_epoch2", "v2_epoch3", "v2_complex2", "v2_rename", "unlink",
	"duplicate_create", "duplicate_open", "v1_bug15148", "v2_bug15148", "v2_request_parent", "v2_request",
}, fails: []tortureFailure{
	{"there are no streams", "NT_STATUS_OBJECT_NAME_INVALID", []string{"request"}},
	{"a break goes over the connection of the open, and not over the first one of the client", "lease_break_info.lease_transport", []string{"v2_complex1"}},
}, skips: []string{"dynamic_share"}}

// ioctlTests are the tests of smb2.ioctl for the control codes that the server offers. Its other
// tests are of sparse and compressed files, streams and network interfaces.
var ioctlTests = tortureSuite{name: "ioctl", passes: []string{
	"req_resume_key", "req_two_resume_keys",
	"copy_chunk_simple", "copy_chunk_multi", "copy_chunk_tiny", "copy_chunk_overwrite", "copy_chunk_append", "copy_chunk_limits",
	"copy_chunk_src_lock", "copy_chunk_dest_lock", "copy_chunk_bad_key", "copy_chunk_src_is_dest", "copy_chunk_src_is_dest_overlap",
	"copy_chunk_bad_access", "copy_chunk_write_access", "copy_chunk_src_exceed", "copy_chunk_src_exceed_multi",
	"copy_chunk_sparse_dest", "copy_chunk_max_output_sz", "copy_chunk_zero_length", "copy_chunk_across_shares",
	"copy_chunk_across_shares2", "copy_chunk_across_shares3",
}}

// notifyTests are the tests of smb2.notify without two. mask passes too, and waits for 77 seconds in
// all. basedir passes if the server begins the watch before it serves a change that another
// connection asked for later; nothing orders the two, and after the change the test waits for ever.
var notifyTests = tortureSuite{name: "notify", passes: []string{
	"valid-req", "tcon", "dir", "tdis", "tdis1", "close", "logoff", "session-reconnect", "invalid-reauth", "double",
	"file", "tcp", "overflow", "rmdir1", "rmdir2", "rmdir3", "rmdir4", "handle-permissions",
}, fails: []tortureFailure{
	{"a path has no component ..", "NT_STATUS_OBJECT_PATH_SYNTAX_BAD", []string{"tree"}},
	{"a directory stays while the test has it open", "NT_STATUS_DIRECTORY_NOT_EMPTY", []string{"rec", "mask-change"}},
}}

// findTests are the tests of smb2.compound_find without the one that asks for more than the
// negotiated size.
var findTests = tortureSuite{name: "compound_find", passes: []string{"compound_find_related", "compound_find_unrelated"}}

// Samba's tests of SMB have the expected results against our server. smbtorture runs each suite to its
// end, and the server serves all of them.
//
// Source: [MS-SMB2 3.3.5]
func TestSmbtortureSuitesHaveTheirResults(t *testing.T) {
	need(t, "smbtorture")
	s := serve(t, t.TempDir())
	for _, suite := range tortureSuites {
		t.Run(suite.name, func(t *testing.T) { suite.check(t, s.torture(t, "sign", "smb2."+suite.name)) })
	}
	for _, part := range []tortureSuite{ioctlTests, findTests, notifyTests, oplockTests, leaseTests} {
		t.Run(part.name, func(t *testing.T) {
			if part.name == "oplock" || part.name == "lease" {
				t.Parallel() // they wait most of the time
			}
			var names []string
			for _, test := range part.tests() {
				names = append(names, "smb2."+part.name+"."+test)
			}
			part.check(t, s.torture(t, "sign", names...))
		})
	}
}

// torture runs tests of smbtorture and returns its output. protection is "sign" or "encrypt".
func (s *lwioServer) torture(t *testing.T, protection string, names ...string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	args := append([]string{
		"//" + s.host + "/data", "-p", s.port, "-U", s.user + "%" + s.password, "--client-protection=" + protection, "--option=client signing=required",
	}, names...)
	out, _ := exec.CommandContext(ctx, "smbtorture", args...).CombinedOutput() // the exit status repeats failures
	return string(out)
}

// tests returns the tests.
func (s *tortureSuite) tests() []string {
	list := slices.Concat(s.passes, s.skips)
	for _, f := range s.fails {
		list = append(list, f.tests...)
	}
	return list
}

// check reports each result in the output that differs from the expected one.
func (s *tortureSuite) check(t *testing.T, out string) {
	t.Helper()
	for _, problem := range s.judge(out) {
		t.Error(problem)
	}
	if t.Failed() {
		t.Log(out)
	}
}

// tortureResult is the line of smbtorture with the result of a test.
var tortureResult = regexp.MustCompile(`(?m)^(success|failure|skip|error): (\S+)`)

// judge compares an output with the expected results. Every test of the suite has one.
func (s *tortureSuite) judge(out string) (problems []string) {
	type result struct{ verdict, message string }
	results := make(map[string]result)
	at := tortureResult.FindAllStringSubmatchIndex(out, -1)
	for i, m := range at {
		end := len(out)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		message, _, _ := strings.Cut(out[m[1]:end], "\ntest: ")
		results[out[m[4]:m[5]]] = result{out[m[2]:m[3]], message}
	}
	expect := func(test, verdict, says, why string) {
		r, ok := results[test]
		delete(results, test)
		switch {
		case !ok:
			problems = append(problems, test+": no result")
		case r.verdict != verdict || !strings.Contains(r.message, says):
			problems = append(problems, fmt.Sprintf("%s: %s%s\nexpected %s %q %s", test, r.verdict, r.message, verdict, says, why))
		}
	}
	for _, test := range s.passes {
		expect(test, "success", "", "")
	}
	for _, f := range s.fails {
		for _, test := range f.tests {
			expect(test, "failure", f.says, "because "+f.why)
		}
	}
	for _, test := range s.skips {
		expect(test, "skip", "", "")
	}
	for test, r := range results {
		problems = append(problems, fmt.Sprintf("%s: %s, which the table does not have", test, r.verdict))
	}
	slices.Sort(problems)
	return problems
}

// A result other than the expected one, a missing one and an unknown one are problems.
func TestTortureJudgeReportsOtherResults(t *testing.T) {
	suite := tortureSuite{
		passes: []string{"good"}, fails: []tortureFailure{{"it is", "was 0", []string{"bad"}}}, skips: []string{"left"},
	}
	const good, bad, left = "test: good\nsuccess: good\n", "test: bad\nfailure: bad [\nx was 0\n]\n", "test: left\nskip: left [\nno\n]\n"
	for _, c := range []struct {
		out      string
		problems int
	}{
		{good + bad + left, 0},
		{left + bad + good, 0},
		{"", 3},
		{good + bad, 1},
		{bad + left + "test: good\nfailure: good [\nwas 0\n]\n", 1},
		{good + left + "test: bad\nfailure: bad [\nwas 1\n]\n", 1},
		{good + left + "test: bad\nfailure: bad [\nwas 1\n]\ntest: was 0\n", 1},
		{good + left + "test: bad\nsuccess: bad\n", 1},
		{good + left + "test: bad\nskip: bad [\nwas 0\n]\n", 1},
		{good + bad + left + "test: new\nsuccess: new\n", 1},
		{good + bad + "test: left\nsuccess: left\n", 1},
		{good + bad + "test: left\n", 1},
	} {
		if got := suite.judge(c.out); len(got) != c.problems {
			t.Errorf("%q: %q", c.out, got)
		}
	}
}
