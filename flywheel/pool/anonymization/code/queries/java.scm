; Declarations.
(class_declaration name: (identifier) @class) @owner
(interface_declaration name: (identifier) @class) @owner
(enum_declaration name: (identifier) @class) @owner
(record_declaration name: (identifier) @class) @owner
(annotation_type_declaration name: (identifier) @class)
(type_parameter (type_identifier) @class)
(superclass [(type_identifier) @base (generic_type (type_identifier) @base)])
(type_list [(type_identifier) @base (generic_type (type_identifier) @base)])
(object_creation_expression type: [(type_identifier) @base (generic_type (type_identifier) @base)] (class_body)) @owner
(method_declaration name: (identifier) @method.own)
((method_declaration (modifiers (marker_annotation name: (identifier) @marker)) name: (identifier) @method)
 (#eq? @marker "Override"))
(field_declaration declarator: (variable_declarator name: (identifier) @field))
(enum_constant name: (identifier) @field)
(record_declaration parameters: (formal_parameters (formal_parameter name: (identifier) @field)))
(local_variable_declaration declarator: (variable_declarator name: (identifier) @var))
(formal_parameter name: (identifier) @var)
(spread_parameter (variable_declarator name: (identifier) @var))
(catch_formal_parameter name: (identifier) @var)
(enhanced_for_statement name: (identifier) @var)
(resource name: (identifier) @var)
(lambda_expression parameters: (identifier) @var)
(inferred_parameters (identifier) @var)
(type_pattern (_) (identifier) @var)
(instanceof_expression name: (identifier) @var)
(labeled_statement . (identifier) @var)

; Uses.
(method_invocation object: (_) @receiver name: (identifier) @member)
(field_access object: (_) @receiver field: (identifier) @member)
(method_reference . (_) @receiver (identifier) @member .)
(scoped_type_identifier . (_) @receiver (type_identifier) @member .)

; Not ours.
(import_declaration [(identifier) @fixed (scoped_identifier name: (identifier) @imported)])
(package_declaration (identifier) @fixed)
(scoped_identifier scope: (identifier) @fixed)
(scoped_identifier name: (identifier) @fixed)
(marker_annotation name: (identifier) @fixed)
(annotation name: (identifier) @fixed)
(element_value_pair key: (identifier) @fixed)

; Text.
[(line_comment) (block_comment)] @comment
(string_literal) @string
