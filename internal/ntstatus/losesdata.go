package ntstatus

import "errors"

// LosesData reports whether a FLUSH or SYNC that is answered s may have lost written data: the system reports that once,
// so the answer must reach the client. Any failure does, except for the refusals of the request itself, which come
// before the disk. Server and client go by the same rule.
func (s Status) LosesData() bool {
	switch s {
	case AccessDenied, FileClosed, Cancelled, UserSessionDeleted, NetworkNameDeleted, NetworkSessionExpired:
		return false
	}
	return s.Failed()
}

// LosesData reports whether err is an answer that loses data.
func LosesData(err error) bool {
	var s Status
	return errors.As(err, &s) && s.LosesData()
}
