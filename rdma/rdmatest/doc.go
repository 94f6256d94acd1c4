// Package rdmatest is the conformance suite for providers of package rdma. Every provider
// passes it. A provider's own tests run it in a few lines:
//
//	func TestConformanceCases(t *testing.T) {
//		rdmatest.Run(t, rdmatest.Config{
//			New:  func(testing.TB) rdma.Provider { return myprovider.New(nil) },
//			Addr: rdma.IPAddr("my fabric", netip.MustParseAddrPort("127.0.0.1:0")),
//			Gaps: map[string]string{"cq/resize": "the hardware cannot"},
//		})
//	}
//
// The suite connects adapters of the provider to each other within the process. Every
// case is a subtest with a stable name and opens its own adapters. It fails, and does not
// hang, if the provider does not answer within a minute. It also fails if goroutines,
// descriptors or shared mappings remain at its end.
//
// Config.Gaps lists the cases that a provider does not pass, with a reason. A case that
// is skipped and not listed fails. A listed case that passes fails too, so the list is
// always true.
//
// The tags of the cases name the subject: a method of NetworkDirect, as [ND
// QueuePair.Send], or one of NetworkDirect's own tests, as [ND NdConnReject].
//
// A table in the tests of this package maps each test of NetworkDirect to cases. The
// tests of this package also show that every case fails with a provider that has a
// matching defect. A hostile peer speaks the wire format of a provider, so its tests are
// in the provider's package. Package fault wraps a provider to trace, count and disturb
// its operations.
package rdmatest
