package host

// DescriptorShare is the smaller of most and one part-th of the descriptors (files and
// sockets) that the process may have; at least 1.
func DescriptorShare(most, part int) int { return share(descriptorLimit(), most, part) }

func share(limit, most, part int) int {
	if limit > 0 {
		most = min(most, limit/part)
	}
	return max(most, 1)
}
