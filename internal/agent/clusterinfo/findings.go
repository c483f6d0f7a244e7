// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import "fmt"

const (
	// foundBytesMax is how many bytes may be kept of what one document says, each group and
	// version and each resource with what it takes besides its names: room for some times as
	// many resources as are told. An API server chooses how many there are.
	foundBytesMax = 4 << 20
	servedBytes   = 48
	resourceBytes = 32
)

// discoveryFindings are what an API server was found to serve.
type discoveryFindings struct {
	all   []servedGroupVersion
	bytes int
}

// addGroupVersion keeps what is found, without the names that are not told. It returns an error if that is
// too much, and then keeps nothing of it.
func (f *discoveryFindings) addGroupVersion(s servedGroupVersion) error {
	bytes := servedBytes + len(s.groupVersion)
	kept := s.resources[:0]
	for _, r := range s.resources {
		if r.isReportable() {
			kept = append(kept, r)
			bytes += resourceBytes + len(r.name) + len(r.kind)
		}
	}
	if bytes += f.bytes; bytes > foundBytesMax {
		return fmt.Errorf("the API server serves more than the %d bytes of names that are kept", foundBytesMax)
	}
	s.resources = append([]servedResource(nil), kept...) // without room for those that are dropped
	f.all = append(f.all, s)
	f.bytes = bytes
	return nil
}
