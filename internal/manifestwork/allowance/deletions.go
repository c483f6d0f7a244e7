// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// WorkDeletion is a work that is to be deleted.
type WorkDeletion struct {
	Work *workv1.ManifestWork
	// Writes is how often API servers store the work whole for that: once to note when it was
	// deleted, as the finalizer of the agent keeps it, and once for each change before.
	Writes int64
}

// AdmitDeletions decides which works of an owner are deleted now: they take their turn among all that
// is written to the works of the owner. They need no room, and keep theirs until they are gone.
func (a *Allowance) AdmitDeletions(owner WorkOwner, deletions []WorkDeletion) (now []*workv1.ManifestWork, held HeldWorks) {
	held = a.decideWrites(owner, func(p *admissionPass) {
		for _, d := range deletions {
			if p.admitWrite(d.deletionWrite()) {
				now = append(now, d.Work)
			}
		}
	})
	return now, held
}

// deletionWrite returns what API servers store for a deletion.
func (d WorkDeletion) deletionWrite() WorkWrite {
	stored := d.Writes * WorkBytes(d.Work)
	return WorkWrite{Work: client.ObjectKeyFromObject(d.Work), Has: stored, Bytes: stored, Version: d.Work.ResourceVersion, deletes: true}
}
