// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

const (
	// leftOutMax is how many fields are left out of an object that the member does not know.
	leftOutMax = 100
	// attemptsMax is how often an object is sent in one pass: the server names one field of a
	// map at a time, and the object may have to be made again.
	attemptsMax = leftOutMax + 2
	// undeclaredMax is how many fields a message names that a member does not know, or does not
	// let go.
	undeclaredMax = 10
)

// applyAttempts bring an object to the member that it does not take as it is.
type applyAttempts struct {
	of *object
	// recreated says that the object was deleted in order to make it again.
	recreated bool
}

// sendUntilAccepted sends the object until the member takes it, or there is nothing to be done about
// why it does not. It begins without what the member did not know before, unless it is time
// to send the whole manifest.
func (a *applyAttempts) sendUntilAccepted(ctx context.Context, how applier) (written *metav1.PartialObjectMetadata, err error) {
	o := a.of
	want := a.of.want
	known := a.of.history.Undeclared
	moves := want.IsCustomized() || want.Ignored != nil // items of lists, so that paths mean others
	whole := moves || known.RetryDelay(want.Hash, o.Clock.Now()) == 0
	if !whole {
		o.undeclared = slices.Clone(known.Paths)
	}
	defer func() {
		if err == nil || len(o.undeclared) > 0 {
			a.of.history.Undeclared = known.UpdateAfterSend(want.Hash, o.undeclared, whole, o.Clock.Now())
		}
	}()
	for range attemptsMax {
		written, err = o.sendObject(ctx, how)
		if err == nil {
			return written, nil
		}
		again := a.leaveOutUndeclared(ctx, err)
		if !again {
			again, err = a.recreateObject(ctx, how, err)
		}
		if !again {
			break
		}
	}
	return nil, err
}

// leaveOutUndeclared leaves the fields out that the member says it does not know. It returns false if
// the error is another one, or the manifest says that all fields have to be known.
func (a *applyAttempts) leaveOutUndeclared(ctx context.Context, err error) bool {
	o := a.of
	if !apply.IsUndeclared(err) {
		return false
	}
	content, problem := o.manifestContent(ctx)
	if problem != nil || fields.String(content, "metadata", "annotations", workv1.AnnotationStrictFields) == "true" {
		return false
	}
	ignore.RemovePaths(content, o.without)
	ignore.RemovePaths(content, o.undeclared)
	found := apply.UndeclaredFields(err, content)
	if len(found) == 0 || len(o.undeclared)+len(found) > leftOutMax {
		return false
	}
	o.undeclared = ignore.MinimalPaths(append(o.undeclared, found...))
	return true
}

// stuckNote says which fields stay though the manifest has lost them; "" if there are none.
func stuckNote(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	more := ""
	if rest := len(paths) - undeclaredMax; rest > 0 {
		paths, more = paths[:undeclaredMax], fmt.Sprintf(" and %d more", rest)
	}
	names := make([]string, 0, len(paths))
	for _, path := range paths {
		names = append(names, printableName(path))
	}
	return workv1.ManifestMessageWarning + "the object keeps these fields, which are no longer in the manifest, because the API server does not remove them: " +
		strings.Join(names, ", ") + more + ". To remove them, delete the object in the cluster: it is recreated."
}

// undeclaredNote says which fields were left out.
func undeclaredNote(paths []ignore.Path) string {
	more := ""
	if rest := len(paths) - undeclaredMax; rest > 0 {
		paths, more = paths[:undeclaredMax], fmt.Sprintf(" and %d more", rest)
	}
	names := make([]string, 0, len(paths))
	for _, path := range paths {
		names = append(names, apply.FieldName(path))
	}
	return workv1.ManifestMessageWarning + "the API server of the cluster does not know these fields, and the object was applied without them: " +
		strings.Join(names, ", ") + more + ". They are tried again, at intervals that grow from 30 seconds to 10 minutes. To have the object refused instead, annotate it in the manifest with " +
		workv1.AnnotationStrictFields + "=true."
}

// immutableError says that a manifest changes fields that cannot change, and what to do.
type immutableError struct {
	fields []string
	err    error
}

func (e *immutableError) Error() string { return e.err.Error() }
func (e *immutableError) Unwrap() error { return e.err }

// explainMessage adds what to do about it.
func (e *immutableError) explainMessage(message string) string {
	return strings.TrimSuffix(message, ".") + ". Restore " + strings.Join(e.fields, ", ") + " in the manifest; or delete the object in the cluster; or, to have it deleted " +
		"and made again, annotate it in the manifest with " + workv1.AnnotationRecreate + "=true."
}

// recreateObject deletes an object that cannot become what the manifest says, so that it is made
// again. It does so if the manifest allows it, and as agents of OCM do: with a Secret
// whose type changes, unless somebody else made it or put something into it. Again
// says that the object may be sent again; otherwise the error says why not.
func (a *applyAttempts) recreateObject(ctx context.Context, how applier, refused error) (again bool, err error) {
	o := a.of
	want := a.of.want
	names := a.immutableFields(ctx, refused)
	if len(names) == 0 || a.recreated {
		return false, refused
	}
	content, err := o.keptContent(ctx)
	if err != nil {
		return false, err
	}
	refused = &immutableError{fields: names, err: refused}
	allowed := fields.String(content, "metadata", "annotations", workv1.AnnotationRecreate) == "true"
	if !allowed && !isExpected(want.Manifest.Kind, how, names) || holdsOthers(want.Manifest.Kind.GroupKind()) || !o.isSoleOwner() {
		return false, refused
	}
	live, err := o.Member.ReadObject(ctx, want.Resource.Version, want.Object)
	switch {
	case err != nil:
		return false, err
	case live.GetDeletionTimestamp() != nil, !allowed && (len(live.GetFinalizers()) > 0 || !apply.IsMadeBy(live, o.isOurs)):
		return false, refused
	case deletesVolumeClaims(live):
		return false, &volumeClaimsError{err: refused}
	}
	err = o.Member.Delete(ctx, want.Resource.Version, want.Object, live.GetUID(), live.GetResourceVersion())
	if err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	a.recreated = true
	o.known = nil
	return true, nil
}

// immutableFields returns the fields for which the server refuses the manifest, if that is since they
// cannot change once the object exists; nil if the reason is another one. Where the text of the
// refusal does not say so, as those of StatefulSets, Pods and rules of custom resources do not, the
// server is asked whether it would make the object: nothing is deleted that could not be made again.
func (a *applyAttempts) immutableFields(ctx context.Context, refused error) []string {
	o := a.of
	want := a.of.want
	names := apply.ImmutableFields(refused)
	said := true
	if len(names) == 0 {
		names = apply.InvalidFields(refused)
		said = false
	}
	if fixed := (*fixedError)(nil); errors.As(refused, &fixed) {
		names = fixed.fields
	}
	if len(names) == 0 || said {
		return names
	}
	if o.known == nil || o.body == nil { // so it is not a change that is refused
		return nil
	}
	err := o.Member.TryCreate(ctx, want.Resource.Version, want.Object, o.body, o.Record.FieldManager())
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil
	}
	return names
}

// volumeClaimsError says that an object is not made again, since the data of others would be lost.
type volumeClaimsError struct{ err error }

func (e *volumeClaimsError) Error() string { return e.err.Error() }
func (e *volumeClaimsError) Unwrap() error { return e.err }

// explainMessage adds why.
func (e *volumeClaimsError) explainMessage(message string) string {
	return strings.TrimSuffix(message, ".") + ". It is not deleted and made again, since its PersistentVolumeClaims would be deleted with it: " +
		"first apply a manifest that only sets spec.persistentVolumeClaimRetentionPolicy.whenDeleted to Retain."
}

// deletesVolumeClaims reports whether the PersistentVolumeClaims of a StatefulSet are deleted with it.
func deletesVolumeClaims(live *unstructured.Unstructured) bool {
	return live.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "apps", Kind: "StatefulSet"} &&
		fields.String(live.Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted") == "Delete"
}

// isExpected reports whether agents of OCM make an object again of which these fields change.
func isExpected(kind schema.GroupVersionKind, how applier, names []string) bool {
	_, updates := how.(update)
	return updates && kind == corev1.SchemeGroupVersion.WithKind("Secret") && slices.Equal(names, []string{"type"})
}

// holdsOthers reports whether objects of others end with an object of the kind.
func holdsOthers(kind schema.GroupKind) bool {
	return kind == schema.GroupKind{Kind: "Namespace"} || kind == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}
