// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
)

// idLengthMax is Karmada's.
const idLengthMax = 128000

// ValidateClusterCreate returns what is wrong with a Cluster that is created.
func ValidateClusterCreate(cluster *v1alpha1.Cluster) field.ErrorList {
	all := append(ValidateClusterName(cluster.Name), validateSpec(cluster)...)
	return append(all, ValidateResourceModels(cluster.Spec.ResourceModels, field.NewPath("spec", "resourceModels"))...)
}

// ValidateClusterUpdate returns what is wrong with a Cluster that replaces another one. The
// names of clusters that joined in another way may be longer, and a
// ClusterConnection may have models that a Cluster may not: they stay as they are.
func ValidateClusterUpdate(cluster, old *v1alpha1.Cluster) field.ErrorList {
	all := validateSpec(cluster)
	path := field.NewPath("spec")
	if !equality.Semantic.DeepEqual(cluster.Spec.ResourceModels, old.Spec.ResourceModels) {
		all = append(all, ValidateResourceModels(cluster.Spec.ResourceModels, path.Child("resourceModels"))...)
	}
	if cluster.Spec.SyncMode != old.Spec.SyncMode {
		all = append(all, field.Invalid(path.Child("syncMode"), cluster.Spec.SyncMode, apivalidation.FieldImmutableErrorMsg))
	}
	if old.Spec.ID != "" && cluster.Spec.ID != old.Spec.ID {
		all = append(all, field.Invalid(path.Child("id"), cluster.Spec.ID, fmt.Sprintf("the cluster says that it is %q", old.Spec.ID)))
	}
	return all
}

// ValidateClusterName returns what is wrong with the name of a Cluster.
func ValidateClusterName(name string) field.ErrorList {
	path := field.NewPath("metadata", "name")
	var all field.ErrorList
	for _, problem := range utilvalidation.IsDNS1123Label(name) {
		all = append(all, field.Invalid(path, name, problem))
	}
	if len(name) > v1alpha1.NameMaxLength {
		all = append(all, field.TooLong(path, name, v1alpha1.NameMaxLength))
	}
	return all
}

func validateSpec(cluster *v1alpha1.Cluster) field.ErrorList {
	s := &cluster.Spec
	path := field.NewPath("spec")
	all := validateMetadata(cluster)
	if len(s.ID) > idLengthMax {
		all = append(all, field.TooLong(path.Child("id"), "", idLengthMax))
	}
	all = append(all, validateConnection(s, path)...)
	all = append(all, validatePlace(s, path)...)
	return append(all, ValidateTaints(s.Taints, path.Child("taints"))...)
}

// validateMetadata refuses what the hub would not keep.
func validateMetadata(cluster *v1alpha1.Cluster) field.ErrorList {
	var all field.ErrorList
	path := field.NewPath("metadata")
	for i, finalizer := range cluster.Finalizers {
		if finalizer != v1alpha1.Finalizer {
			all = append(all, field.NotSupported(path.Child("finalizers").Index(i), finalizer, []string{v1alpha1.Finalizer}))
		}
	}
	if len(cluster.OwnerReferences) > 0 {
		all = append(all, field.Forbidden(path.Child("ownerReferences"), "a Cluster has no owner: it goes when it is deleted or its ManagedCluster is"))
	}
	return all
}

func validateConnection(s *v1alpha1.ClusterSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	modes := []v1alpha1.ClusterSyncMode{v1alpha1.Pull, v1alpha1.Push}
	switch {
	case s.SyncMode == "":
		all = append(all, field.Required(path.Child("syncMode"), "has to be Push or Pull"))
	case !slices.Contains(modes, s.SyncMode):
		all = append(all, field.NotSupported(path.Child("syncMode"), s.SyncMode, modes))
	case s.SyncMode == v1alpha1.Push && s.APIEndpoint == "":
		all = append(all, field.Required(path.Child("apiEndpoint"), "the hub connects to a cluster with syncMode Push"))
	}
	if s.APIEndpoint != "" {
		all = append(all, validateAddress(s.APIEndpoint, path.Child("apiEndpoint"), "https")...)
	}
	if s.ProxyURL != "" {
		all = append(all, validateAddress(s.ProxyURL, path.Child("proxyURL"), "http", "https", "socks5")...)
	}
	if len(s.ProxyHeader) > 0 && (s.ProxyURL == "" || strings.HasPrefix(s.ProxyURL, "socks5:")) {
		all = append(all, field.Invalid(path.Child("proxyHeader"), "", "needs a proxyURL that begins with http:// or https://"))
	}
	all = append(all, validateSecretRef(s.SecretRef, path.Child("secretRef"))...)
	return append(all, validateSecretRef(s.ImpersonatorSecretRef, path.Child("impersonatorSecretRef"))...)
}

// validateAddress returns what is wrong with a URL that has to have one of the schemes.
// It is not shown if it may have a password.
func validateAddress(text string, path *field.Path, schemes ...string) field.ErrorList {
	parsed, err := url.Parse(text)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, "", "is not a URL")}
	case parsed.User != nil:
		return field.ErrorList{field.Invalid(path, parsed.Redacted(), "must not have credentials")}
	case !slices.Contains(schemes, parsed.Scheme) || parsed.Hostname() == "":
		return field.ErrorList{field.Invalid(path, text, fmt.Sprintf("has to be a URL that begins with %s://", strings.Join(schemes, ":// or ")))}
	default:
		return nil
	}
}

func validateSecretRef(ref *v1alpha1.LocalSecretReference, path *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	var all field.ErrorList
	if ref.Namespace == "" {
		all = append(all, field.Required(path.Child("namespace"), "the namespace of the Secret on the hub"))
	}
	for _, problem := range apivalidation.ValidateNamespaceName(ref.Namespace, false) {
		if ref.Namespace != "" {
			all = append(all, field.Invalid(path.Child("namespace"), ref.Namespace, problem))
		}
	}
	if ref.Name == "" {
		return append(all, field.Required(path.Child("name"), "the name of the Secret"))
	}
	for _, problem := range apivalidation.NameIsDNSSubdomain(ref.Name, false) {
		all = append(all, field.Invalid(path.Child("name"), ref.Name, problem))
	}
	return all
}

func validatePlace(s *v1alpha1.ClusterSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, problem := range utilvalidation.IsValidLabelValue(s.Region) {
		all = append(all, field.Invalid(path.Child("region"), s.Region, problem))
	}
	if s.Zone != "" && len(s.Zones) > 0 {
		all = append(all, field.Invalid(path.Child("zone"), s.Zone, "zone and zones are mutually exclusive; use zones, zone is deprecated"))
	}
	seen := map[string]bool{}
	for i, zone := range s.Zones {
		if seen[zone] {
			all = append(all, field.Duplicate(path.Child("zones").Index(i), zone))
		}
		seen[zone] = true
	}
	return all
}

// ValidateTaints returns what is wrong with the taints of a Cluster.
func ValidateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	var all field.ErrorList
	effects := []corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule}
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[identity]bool{}
	for i, t := range taints {
		at := path.Index(i)
		all = append(all, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
		for _, problem := range utilvalidation.IsValidLabelValue(t.Value) {
			all = append(all, field.Invalid(at.Child("value"), t.Value, problem))
		}
		switch {
		case t.Effect == "":
			all = append(all, field.Required(at.Child("effect"), "has to be NoExecute, NoSchedule or PreferNoSchedule"))
		case !slices.Contains(effects, t.Effect):
			all = append(all, field.NotSupported(at.Child("effect"), t.Effect, effects))
		}
		is := identity{key: t.Key, effect: t.Effect}
		if seen[is] {
			duplicate := field.Duplicate(at, t.ToString())
			duplicate.Detail = "taints must be unique by key and effect"
			all = append(all, duplicate)
		}
		seen[is] = true
	}
	return all
}

// ValidateConditions returns what is wrong with the conditions of a Cluster.
func ValidateConditions(conditions []metav1.Condition) field.ErrorList {
	return metav1validation.ValidateConditions(conditions, field.NewPath("status", "conditions"))
}
