package ntstatus

import "testing"

// A file system that became read-only, or any other failure of the disk, loses data. A refusal of the request does not.
func TestLosesData(t *testing.T) {
	for s, want := range map[Status]bool{
		Success: false, AccessDenied: false, FileClosed: false, Cancelled: false, NetworkNameDeleted: false, Pending: false,
		UnexpectedIOError: true, DiskFull: true, MediaWriteProtected: true, NoMemory: true, InvalidParameter: true,
	} {
		if got := s.LosesData(); got != want {
			t.Errorf("%v: %v", s, got)
		}
		if got := LosesData(s.Err()); got != want {
			t.Errorf("the error of %v: %v", s, got)
		}
	}
}
