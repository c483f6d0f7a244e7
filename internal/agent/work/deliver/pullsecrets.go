// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/owned"
)

const fieldImagePullSecrets = "imagePullSecrets"

// pullSecrets applies a ServiceAccount with the imagePullSecrets of its manifest and those
// that the cluster has added. The list has a single owner in the API, unlike secrets: to
// apply that of the manifest alone would take away what others add, again and again.
type pullSecrets struct{ of *object }

// joinLists puts the two lists together if there are both.
func (p pullSecrets) joinLists(ctx context.Context, manager string, stamp *apply.Stamp) error {
	o := p.of
	if o.want.Manifest.Kind != corev1.SchemeGroupVersion.WithKind("ServiceAccount") || o.seen != nil { // which is customized
		return nil
	}
	content, err := o.keptContent(ctx)
	if err != nil {
		return err
	}
	wanted, isList := pullSecretNames(content)
	if !isList { // the API server says what is wrong
		return nil
	}
	live, err := o.Member.ReadObject(ctx, o.want.Resource.Version, o.want.Object)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // who may only write joins nothing
		live = &unstructured.Unstructured{}
		err = nil
	}
	if err != nil {
		return err
	}
	there, _ := pullSecretNames(live.Object)
	ours, err := ownsPullSecrets(live.GetManagedFields(), func(entry *metav1.ManagedFieldsEntry) bool { return o.isAppliers(manager, entry) })
	if err != nil || len(wanted) == 0 && !ours { // the list and the annotation may be another work's
		return err
	}
	noted := live.GetAnnotations()[workv1.AnnotationImagePullSecrets]
	joined, foreign := joinPullSecrets(wanted, strings.Split(noted, ","), there)
	if len(wanted) > 0 || foreign {
		if stamp.Annotations == nil {
			stamp.Annotations = map[string]string{}
		}
		stamp.Annotations[workv1.AnnotationImagePullSecrets] = strings.Join(slices.Sorted(slices.Values(wanted)), ",")
	}
	if !foreign {
		return nil
	}
	o.seen = live
	return p.setSecretNames(content, joined)
}

// setSecretNames has the ServiceAccount applied with the imagePullSecrets of these names.
func (p pullSecrets) setSecretNames(content map[string]any, names []string) (err error) {
	references := make([]any, 0, len(names))
	for _, name := range names {
		references = append(references, map[string]any{"name": name})
	}
	content[fieldImagePullSecrets] = references
	if p.of.made, err = json.Marshal(content); err != nil {
		return fmt.Errorf("encoding the imagePullSecrets of %s: %w", p.of.want.Object, err)
	}
	return nil
}

// ownsPullSecrets reports whether one of our entries of managedFields has imagePullSecrets.
func ownsPullSecrets(entries []metav1.ManagedFieldsEntry, ours func(*metav1.ManagedFieldsEntry) bool) (bool, error) {
	for i := range entries {
		if !ours(&entries[i]) {
			continue
		}
		fields, err := owned.DecodeManagedFields(&entries[i])
		if err != nil {
			return false, err
		}
		if fields.Has(fieldpath.MakePathOrDie(fieldImagePullSecrets)) {
			return true, nil
		}
	}
	return false, nil
}

// joinPullSecrets returns those that are in the cluster and that the manifest wants or never
// had, in their order, and then the others of the manifest. Foreign says that the manifest
// does not want all of them.
func joinPullSecrets(wanted, before, there []string) (joined []string, foreign bool) {
	is := sets.New[string]()
	wants := sets.New(wanted...)
	had := sets.New(before...)
	for _, name := range there {
		if !is.Has(name) && (wants.Has(name) || !had.Has(name)) {
			is.Insert(name)
			joined, foreign = append(joined, name), foreign || !wants.Has(name)
		}
	}
	for _, name := range wanted {
		if !is.Has(name) {
			is.Insert(name)
			joined = append(joined, name)
		}
	}
	return joined, foreign
}

// pullSecretNames returns the names in the imagePullSecrets of a ServiceAccount; false if
// that is not a list of references.
func pullSecretNames(content map[string]any) (names []string, isList bool) {
	list, isList := content[fieldImagePullSecrets].([]any)
	if !isList {
		return nil, content[fieldImagePullSecrets] == nil
	}
	for _, entry := range list {
		reference, _ := entry.(map[string]any)
		name, isText := reference["name"].(string)
		if !isText {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}
