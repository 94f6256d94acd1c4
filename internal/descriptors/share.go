package descriptors

// Share is most, or that part of the descriptors which the process may have if this is
// less; 1 at least.
func Share(most, part int) int { return share(Limit(), most, part) }

func share(limit, most, part int) int {
	if limit > 0 {
		most = min(most, limit/part)
	}
	return max(most, 1)
}
