// Package rdmatest holds the conformance suite that every provider of package
// rdma passes. A provider's own tests run it in a few lines:
//
//	func TestConformanceCases(t *testing.T) {
//		rdmatest.Run(t, rdmatest.Config{
//			New:  func(testing.TB) rdma.Provider { return myprovider.New(nil) },
//			Addr: rdma.IPAddr("my fabric", netip.MustParseAddrPort("127.0.0.1:0")),
//			Gaps: map[string]string{"cq/resize": "the hardware cannot"},
//		})
//	}
//
// The suite connects adapters of the provider to each other within the process.
// Every case is a subtest with a stable name, opens its own adapters, fails (and
// does not hang) if the provider does not answer within a minute, and fails
// if goroutines, descriptors or shared mappings are left at its end.
//
// Config.Gaps lists the cases that a provider does not pass, with a reason. A case that is
// skipped and not listed fails, and so does a listed one that passes: the list is always
// true.
//
// The tags of the cases name the subject: a method of NetworkDirect, as
// [ND QueuePair.Send], or one of the tests that came with it, as
// [ND NdConnReject].
//
// A table in the tests of this package maps each of these tests to cases. Those tests also
// show every case failing on a provider that is broken in some way. A hostile peer speaks a
// provider's own bytes, so its tests belong to the provider. Package fault wraps a provider
// to trace, count and disturb its operations.
package rdmatest
