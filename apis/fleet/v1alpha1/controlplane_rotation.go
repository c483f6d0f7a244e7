// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ControlPlaneRotation asks for new authorities and keys in place of those that
// are in use. Each of its tokens is any text, such as a date: another one than
// that of the latest rotation begins a new rotation. Only one is carried out at a
// time.
type ControlPlaneRotation struct {
	// etcdAuthority is the token of the authority of etcd's members and clients. It
	// needs a managed etcd.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	EtcdAuthority string `json:"etcdAuthority,omitempty"`

	// frontProxyAuthority is the token of the authority for requests to aggregated
	// API servers.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	FrontProxyAuthority string `json:"frontProxyAuthority,omitempty"`

	// clientAuthority is the token of the authority that signs the certificates of
	// clients, also those of members' agents.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ClientAuthority string `json:"clientAuthority,omitempty"`

	// clientAuthorityGrace is how long the old authority of clients is trusted after
	// the new one has begun to sign: whoever has not renewed its certificate by then
	// has no access anymore. A shorter one also takes effect while a rotation waits.
	// It is in hours, minutes and seconds, such as 1h30m. Default: 8784h, a day longer
	// than the longest certificate is valid.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	ClientAuthorityGrace *metav1.Duration `json:"clientAuthorityGrace,omitempty"`

	// serviceAccountKeys is the token of the key that signs tokens of ServiceAccounts.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ServiceAccountKeys string `json:"serviceAccountKeys,omitempty"`

	// serviceAccountKeysGrace is how long tokens of the old key are accepted after
	// the new one has begun to sign. A shorter one also takes effect while a rotation
	// waits. It is in hours, minutes and seconds, such as 1h30m. Default: 192h, a day
	// longer than the tokens of Capstan's components are valid.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	ServiceAccountKeysGrace *metav1.Duration `json:"serviceAccountKeysGrace,omitempty"`

	// encryptionKeys is the token of the key that encrypts Secrets in etcd.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	EncryptionKeys string `json:"encryptionKeys,omitempty"`

	// servingAuthority is the token of the authority that signs the certificate of the
	// API server. Members' agents follow it, which is waited for.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ServingAuthority string `json:"servingAuthority,omitempty"`

	// servingAuthorityWithout are the names of clusters whose agents are not waited
	// for: they lose the hub until their bootstrap kubeconfigs have its new authority.
	// The name * is for all clusters. It also takes effect while a rotation waits.
	// Default: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=63
	ServingAuthorityWithout []string `json:"servingAuthorityWithout,omitempty"`
}

// RotationStage is how far a rotation is.
type RotationStage string

// Stages of a rotation, in their order.
const (
	// RotationTrust makes the new one known to all that verify; it signs nothing yet.
	RotationTrust RotationStage = "Trust"
	// RotationSign makes the new one sign, also what the old one has signed for the
	// control plane itself.
	RotationSign RotationStage = "Sign"
	// RotationRewrite stores anew what the old one has signed or encrypted.
	RotationRewrite RotationStage = "Rewrite"
	// RotationWait leaves others time to renew what the old one has signed.
	RotationWait RotationStage = "Wait"
	// RotationDrop makes everybody forget the old one.
	RotationDrop RotationStage = "Drop"
	// RotationComplete: only the new one is in use.
	RotationComplete RotationStage = "Complete"
)

// ControlPlaneRotationStatus is the latest rotation of one authority or of one
// kind of keys.
type ControlPlaneRotationStatus struct {
	// name is that of the field in spec.rotation.
	// +required
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// token is the one that it was begun for.
	// +required
	// +kubebuilder:validation:Required
	Token string `json:"token"`
	// stage is how far it is: Trust, Sign, Rewrite, Wait, Drop or
	// Complete.
	// +required
	// +kubebuilder:validation:Required
	Stage RotationStage `json:"stage"`
	// since is when the stage began.
	// +required
	// +kubebuilder:validation:Required
	Since metav1.Time `json:"since"`
	// message says what the stage waits for.
	// +optional
	Message string `json:"message,omitempty"`
}
