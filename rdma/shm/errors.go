package shm

import "lwio/rdma"

// opError returns the error of an operation of this provider.
func opError(op, object string, status rdma.Status, cause error) error {
	return &rdma.Error{Op: "shm: " + op, Object: object, Status: status, Err: cause}
}
