// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// PermanentBindingID returns the permanent ID of a binding, "" if it has none yet.
func PermanentBindingID(b workv1alpha2.Binding) string { return b.GetLabels()[idLabel(b)] }

// BindingID returns the permanent ID of the binding that a work is for, "" if
// there is none.
func BindingID(work *workv1.ManifestWork) string {
	if id := work.Labels[workv1alpha2.LabelResourceBindingID]; id != "" {
		return id
	}
	return work.Labels[workv1alpha2.LabelClusterResourceBindingID]
}

// BindingOf returns the name of the binding that a work says it is for, empty if it
// says none.
func BindingOf(work metav1.Object) types.NamespacedName {
	annotations := work.GetAnnotations()
	if name := annotations[workv1alpha2.AnnotationClusterResourceBindingName]; name != "" {
		return types.NamespacedName{Name: name}
	}
	return types.NamespacedName{
		Namespace: annotations[workv1alpha2.AnnotationResourceBindingNamespace], Name: annotations[workv1alpha2.AnnotationResourceBindingName],
	}
}

// BindingFinalizer returns what keeps a binding until its works are gone.
func BindingFinalizer(b workv1alpha2.Binding) string {
	if b.GetNamespace() == "" {
		return workv1alpha2.FinalizerClusterResourceBinding
	}
	return workv1alpha2.FinalizerResourceBinding
}

func idLabel(b workv1alpha2.Binding) string {
	if b.GetNamespace() == "" {
		return workv1alpha2.LabelClusterResourceBindingID
	}
	return workv1alpha2.LabelResourceBindingID
}

// WorkName returns the name of the works of an object: its own, and a hash of
// what tells it apart from others of the name. Karmada's clients compute it, too.
// ManifestWorks have shorter names than objects may have, so a long one is cut.
func WorkName(kind, namespace, name string) string {
	readable := strings.ReplaceAll(strings.ToLower(name), ":", ".")
	whole := readable + "-" + strings.ToLower(kind)
	if namespace != "" {
		whole = namespace + "-" + whole
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(whole)) // never fails
	suffix := "-" + rand.SafeEncodeString(fmt.Sprint(hash.Sum32()))
	if most := workv1.ManifestWorkNameLengthMax - len(suffix); len(readable) > most {
		readable = strings.TrimRight(readable[:most], "-.")
	}
	return readable + suffix
}

// NameOfWorks returns the name of the works of a binding. Bindings of two objects
// whose bindings would have the same name have different works.
func NameOfWorks(b workv1alpha2.Binding) string {
	return nameOfWorks(b.BindingSpec().Resource, b.GetName())
}

func nameOfWorks(of workv1alpha2.ObjectReference, binding string) string {
	kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
	names := claims.BindingNames(kind, of.Name)
	switch {
	case binding == names[0] && binding != claims.HashedBindingName(kind, of.Name):
	case !slices.Contains(names, binding): // somebody else has made it
	case strings.HasSuffix(binding, "."+kind.Group):
		return WorkName(kind.Kind+"."+kind.Group, of.Namespace, of.Name)
	default:
		return WorkName(kind.Kind, of.Namespace, binding)
	}
	return WorkName(kind.Kind, of.Namespace, of.Name)
}

// NamesOfWorks returns the names that the works of a binding may have: the one which it
// gives them, and those which they would have under the other names that a binding of its
// object may have. A binding for an object of another namespace has no works.
func NamesOfWorks(b workv1alpha2.Binding) []string {
	of := b.BindingSpec().Resource
	if of.Namespace != b.GetNamespace() {
		return nil
	}
	names := []string{NameOfWorks(b)}
	for _, binding := range claims.BindingNames(schema.FromAPIVersionAndKind(of.APIVersion, of.Kind), of.Name) {
		if name := nameOfWorks(of, binding); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// WorkClaimsBinding reports whether a work says of itself that it is of a binding, and has the name that
// this gives its works.
func WorkClaimsBinding(b workv1alpha2.Binding, work *workv1.ManifestWork) bool {
	return work.Name == NameOfWorks(b) && namesBinding(b, work) && BindingID(work) == PermanentBindingID(b)
}

func namesBinding(b workv1alpha2.Binding, work metav1.Object) bool {
	return BindingOf(work) == types.NamespacedName{Namespace: b.GetNamespace(), Name: b.GetName()}
}

// WorkOwnership is whose a work is that has a name of the works of a binding.
type WorkOwnership int

const (
	// Others is a work of another binding, of a namespace, or of somebody else.
	Others WorkOwnership = iota
	// Own is a work of the binding.
	Own
	// Earlier is a work of another object that had the kind and the name.
	Earlier
)

// OwnershipOfWork tells whose a work is that has one of NamesOfWorks, by the work as the hub has it.
// What labels and annotations say can be written by the member, and taken away: a work that
// was made of the object of the binding is its own whatever they say. One that was not may
// be that of a user or of another namespace, as a hash can be ground, unless it names this
// binding.
func OwnershipOfWork(b workv1alpha2.Binding, work *workv1.ManifestWork) WorkOwnership {
	of := b.BindingSpec().Resource
	is := workv1alpha2.ObjectReference{}
	made, said := TemplateOf(work)
	if said && made.Namespace == of.Namespace && made.Name == of.Name && groupKind(made) == groupKind(of) {
		is = made
	}
	switch {
	case OfNamespace(work) != "":
		return Others
	case is.UID != "" && is.UID == of.UID:
		return Own
	case !namesBinding(b, work):
		return Others
	case is.UID != "":
		return Earlier
	default:
		return Own // the member has written something else into it
	}
}

func groupKind(of workv1alpha2.ObjectReference) schema.GroupKind {
	return schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind()
}

// TemplateOf returns what the first manifest of the work of a binding was made of,
// which the others go along with; false if it does not say.
func TemplateOf(work *workv1.ManifestWork) (of workv1alpha2.ObjectReference, ok bool) {
	if len(work.Spec.Workload.Manifests) == 0 {
		return of, false
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
		return of, false
	}
	of = workv1alpha2.ObjectReference{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
		UID: types.UID(object.GetAnnotations()[workv1alpha2.AnnotationTemplateUID]),
	}
	return of, of.UID != ""
}

// workID returns the permanent ID of the work of a binding for a cluster: the
// same each time, so that it needs not be read.
func workID(binding, cluster string) string {
	namespace, err := uuid.Parse(binding)
	if err != nil {
		namespace = uuid.NewSHA1(uuid.Nil, []byte(binding))
	}
	return uuid.NewSHA1(namespace, []byte(cluster)).String()
}

// executionNamespace is where the Work of a cluster is in the API of Karmada.
func executionNamespace(cluster string) string { return karmadaworkv1alpha1.NamespacePrefix + cluster }
