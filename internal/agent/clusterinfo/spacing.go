// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import "time"

// spacing says when the hub may be written to again. It is pure.
type spacing struct {
	// last is when the hub was written to, and apis when it was told of other APIs.
	last, apis time.Time
}

// at returns when the hub may be written to again. What tells of other APIs waits only for the
// last time that it did: clusters are chosen by their APIs. So there are as many writes at most
// as if each waited for writePause and each change of the APIs for promptPause.
func (s spacing) at(apis bool) time.Time {
	if apis {
		return s.apis.Add(promptPause)
	}
	return s.last.Add(writePause)
}

// wrote says that the hub was written to.
func (s *spacing) wrote(now time.Time, apis bool) {
	s.last = now
	if apis {
		s.apis = now
	}
}
