// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/selfconflict"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/override"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

const (
	// labelRollout has the UID of the rollout that a revision is of.
	labelRollout = "fleet.capstan.io/rollout"
	// revisionsMax is how many revisions of an object are kept.
	revisionsMax = 10
	// contentBytesMax is how long the content of a revision is at most.
	contentBytesMax = 16 << 20
	// nameBytes is how much of a hash is in the name of a revision.
	nameBytes = 10
)

// revisionContent is what the works of an object are made of.
type revisionContent struct {
	Template   map[string]any                         `json:"template"`
	UID        types.UID                              `json:"uid,omitempty"`
	Generation int64                                  `json:"generation,omitempty"`
	Conflict   policyv1alpha1.ConflictResolution      `json:"conflictResolution,omitempty"`
	Wide       []policyv1alpha1.ClusterOverridePolicy `json:"clusterOverridePolicies,omitempty"`
	Own        []policyv1alpha1.OverridePolicy        `json:"overridePolicies,omitempty"`
}

// contentOf returns what the works are made of now. Of the policies only those are
// in it that are about the object.
func contentOf(in StageInput) revisionContent {
	c := revisionContent{
		Template: in.Source.Chain.PruneObject(in.Source.Object).Object, UID: in.Source.Object.GetUID(), Generation: in.Source.Object.GetGeneration(),
		Conflict: cmp.Or(in.Binding.BindingSpec().ConflictResolution, policyv1alpha1.ConflictAbort),
	}
	for _, policy := range in.Source.Overrides {
		for i := range in.Wide {
			if p := &in.Wide[i]; policy.Namespace == "" && policy.Name == p.Name {
				c.Wide = append(c.Wide, policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: p.Spec})
			}
		}
		for i := range in.Own {
			if p := &in.Own[i]; policy.Namespace == p.Namespace && policy.Name == p.Name {
				c.Own = append(c.Own, policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Spec: p.Spec})
			}
		}
	}
	return c
}

// revisionName returns the name of the revision: the same for the same content, whatever
// the number of replicas.
func (c revisionContent) revisionName(rollout types.UID, binding types.NamespacedName, even *unstructured.Unstructured) (string, error) {
	c.Template = even.Object
	c.Generation = 0
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encoding what is sent for binding %q: %w", binding, err)
	}
	of := sha256.Sum256([]byte(string(rollout) + " " + binding.String()))
	what := sha256.Sum256(text)
	return hex.EncodeToString(of[:nameBytes]) + "-" + hex.EncodeToString(what[:nameBytes]), nil
}

func (c revisionContent) pack() ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := json.NewEncoder(w).Encode(c); err != nil {
		return nil, fmt.Errorf("encoding the content of a revision: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing the content of a revision: %w", err)
	}
	return b.Bytes(), nil
}

// unpackContent decodes the content of a revision, when there is room for what is made of it.
func unpackContent(ctx context.Context, packed []byte) (c revisionContent, err error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return revisionContent{}, fmt.Errorf("reading the content of a revision: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, contentBytesMax))
	if err != nil {
		return revisionContent{}, fmt.Errorf("reading the content of a revision: %w", err)
	}
	if err := decoding.TakeMemory(ctx, decoding.DecodedBytes(text)); err != nil {
		return revisionContent{}, fmt.Errorf("the content of a revision: %w", err)
	}
	if err := utiljson.Unmarshal(text, &c); err != nil { // whole numbers stay whole
		return revisionContent{}, fmt.Errorf("decoding the content of a revision: %w", err)
	}
	return c, nil
}

// revision is a change of an object that was sent. What was sent is not in memory.
type revision struct {
	name   string
	number int64
	// bytes is how long its content is.
	bytes int
	// kept says that it is stored. There was no room for one that is not, and nothing can
	// be made of it again.
	kept bool
}

// sourceFromRevision returns what works were made of by the content of a revision.
func sourceFromRevision(ctx context.Context, packed []byte, now deliver.WorkSource) (deliver.WorkSource, error) {
	c, err := unpackContent(ctx, packed)
	if err != nil {
		return deliver.WorkSource{}, err
	}
	object := &unstructured.Unstructured{Object: c.Template}
	object.SetUID(c.UID)
	object.SetGeneration(c.Generation)
	now.Object = object
	now.Conflict = c.Conflict
	now.Overrides, now.Mistake = override.SelectPolicies(object, c.Wide, c.Own)
	return now, nil
}

// history are the revisions of an object, the oldest first: the one that all
// clusters had last.
type history []revision

func (h history) findRevision(name string) (revision, bool) {
	n := slices.IndexFunc(h, func(r revision) bool { return r.name == name })
	if n < 0 {
		return revision{}, false
	}
	return h[n], true
}

func (h history) hasRevision(name string) bool {
	_, found := h.findRevision(name)
	return found
}

// withRevision returns the history with a revision, which takes the place of the one of its name.
func (h history) withRevision(r revision) history {
	n := slices.IndexFunc(h, func(each revision) bool { return each.name == r.name })
	if n < 0 {
		return append(slices.Clone(h), r)
	}
	all := slices.Clone(h)
	all[n] = r
	return all
}

// withoutRevisions returns the history without some of its revisions.
func (h history) withoutRevisions(gone []revision) history {
	return slices.DeleteFunc(slices.Clone(h), func(r revision) bool { return history(gone).hasRevision(r.name) })
}

// surplusRevisions returns those that are not kept: all clusters have the current one, or
// there are more than there may be.
func (h history) surplusRevisions(current string, undone, done bool, most int) []revision {
	var gone []revision
	for n, r := range h {
		switch {
		case r.name == current || n == 0 && (undone || !done):
		case done || len(h)-len(gone) > most:
			gone = append(gone, r)
		}
	}
	return gone
}

// createRevision stores a revision of an object, before the first cluster gets it; false if
// there is no room for it, or if the rollout has ended meanwhile: nobody would delete it. It counts for
// what is written in the namespace of the object, as it is made of that and its policies.
func (s *Stages) createRevision(ctx context.Context, e *rolloutEntry, binding types.NamespacedName, r revision, content []byte) (bool, error) {
	object := &fleetv1alpha1.PropagationRevision{
		ObjectMeta: metav1.ObjectMeta{Name: r.name, Labels: map[string]string{labelRollout: string(e.uid)}},
		Spec: fleetv1alpha1.PropagationRevisionSpec{
			RolloutNamespace: e.key.Namespace, RolloutName: e.key.Name, BindingNamespace: binding.Namespace, BindingName: binding.Name,
			Revision: r.number, Content: content,
		},
	}
	s.storing.RLock()
	defer s.storing.RUnlock()
	if s.lookupEntry(e.key) != e {
		return false, nil
	}
	s.spareRevision(r.name)
	return s.shelf.createRevision(selfconflict.WithPayer(ctx, binding.Namespace), object)
}
